"""What a leader answers to a question about several of its partitions, whatever the question."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from levada.client.fan_out import Answer
from levada.types import TopicPartition

T = TypeVar("T")

CONSUMER_REPLICA_ID = -1

LeaderAnswer: TypeAlias = Answer[TopicPartition, T]

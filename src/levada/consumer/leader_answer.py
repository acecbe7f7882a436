"""What a leader answers to a question about several of its partitions, whatever the question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from levada.errors import BrokerError
from levada.types import TopicPartition

T = TypeVar("T")

CONSUMER_REPLICA_ID = -1


@dataclass(slots=True)
class LeaderAnswer(Generic[T]):
    """What one leader said: what was found, reasons to ask again, and errors to raise."""

    found: dict[TopicPartition, T] = field(default_factory=dict)
    again: dict[TopicPartition, str] = field(default_factory=dict)
    errors: dict[TopicPartition, BrokerError] = field(default_factory=dict)

    @classmethod
    def missing(cls, wanted: Iterable[TopicPartition], reason: str) -> LeaderAnswer[T]:
        """Return the answer that says nothing of any of these partitions, for one reason."""
        return cls(again=dict.fromkeys(wanted, reason))

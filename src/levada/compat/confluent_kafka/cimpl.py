"""The names that some programs import from confluent_kafka.cimpl, where confluent-kafka has its C code."""

from __future__ import annotations

from levada.compat.confluent_kafka import *  # noqa: F403
from levada.compat.confluent_kafka.admin.types import NewPartitions as NewPartitions
from levada.compat.confluent_kafka.admin.types import NewTopic as NewTopic

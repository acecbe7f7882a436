"""Strategies for the names of subjects: functions of a SerializationContext and the name of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levada.compat.confluent_kafka.serialization import MessageField, SerializationContext

Strategy = Callable[[SerializationContext, str | None], str | None]
_TYPES = {"TOPIC": "TopicName", "RECORD": "RecordName", "TOPIC_RECORD": "TopicRecordName", "ASSOCIATED": "TopicName"}


def topic_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return <topic>-key or <topic>-value."""
    if ctx is None:
        raise ValueError("SerializationContext is required for topic_subject_name_strategy")
    return f"{ctx.topic}-{ctx.field}"


def topic_record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return <topic>-<name of the record>; None without a name."""
    if ctx is None:
        raise ValueError("SerializationContext is required for topic_record_subject_name_strategy")
    return None if record_name is None else f"{ctx.topic}-{record_name}"


def record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return the name of the record; None without a name."""
    return record_name


def levada_strategy(strategy: Strategy | None, kind: Any) -> Any:
    """Return levada's subject.name.strategy. strategy: a function of the program, or None. kind: subject.name.strategy.type, or None for
    TOPIC. Raises ValueError for another type.
    """
    if strategy is not None:
        return lambda topic, field, record_name: strategy(SerializationContext(topic, MessageField(field)), record_name)
    name = str(getattr(kind, "value", kind or "TOPIC")).upper()
    if name not in _TYPES:
        raise ValueError(f"subject.name.strategy.type: expected one of {', '.join(_TYPES)}, got {kind!r}")
    return _TYPES[name]

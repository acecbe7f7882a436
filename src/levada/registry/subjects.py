"""Under which subject a schema is registered: Confluent's three strategies, and a callable for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from levada.errors import ConfigError

Field: TypeAlias = Literal["key", "value"]
Strategy: TypeAlias = Callable[[str | None, str, str | None], str]
"""strategy(topic, field, record_name) -> subject."""


def topic_name(topic: str | None, field: str, record_name: str | None) -> str:
    """orders-value: one type of record in a topic."""
    return f"{_topic(topic)}-{field}"


def record_name(topic: str | None, field: str, record_name: str | None) -> str:
    """shop.Order: a record has one schema, whatever the topic."""
    return _record(record_name)


def topic_record_name(topic: str | None, field: str, record_name: str | None) -> str:
    """orders-shop.Order: several types of records in a topic."""
    return f"{_topic(topic)}-{_record(record_name)}"


STRATEGIES: dict[str, Strategy] = {"TopicName": topic_name, "RecordName": record_name, "TopicRecordName": topic_record_name}


def subject_of(strategy: Any, topic: str | None, field: str, record_name: str | None) -> str:
    """Return a schema's subject, by the value of `subject.name.strategy`."""
    if field not in ("key", "value"):
        raise ConfigError(f"field is 'key' or 'value', got {field!r}")
    subject = STRATEGIES.get(strategy, strategy)(topic, field, record_name)
    if not isinstance(subject, str) or not subject:
        raise ConfigError(f"'subject.name.strategy': the callable returned {subject!r}, not the name of a subject")
    return subject


def _topic(topic: str | None) -> str:
    if topic is None:
        raise ConfigError("the subject is made of the topic's name: give topic='...', or subject.name.strategy=RecordName")
    return topic


def _record(name: str | None) -> str:
    if name is None:
        raise ConfigError("'subject.name.strategy': this schema has no name; use TopicName, or give it a name (Avro) or a title (JSON)")
    return name

"""Under which subject a schema stands."""

from __future__ import annotations

from typing import Any

import pytest

from levada.errors import ConfigError
from levada.registry.writing import subject_of


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicName", "orders-value"),
        ("RecordName", "shop.Order"),
        ("TopicRecordName", "orders-shop.Order"),
        (lambda topic, field, record: f"{field}/{topic}/{record}", "value/orders/shop.Order"),
    ],
)
def test_each_strategy(strategy: Any, subject: str) -> None:
    assert subject_of(strategy, "orders", "value", "shop.Order") == subject


def test_a_key_has_a_subject_of_its_own() -> None:
    assert subject_of("TopicName", "orders", "key", None) == "orders-key"


@pytest.mark.parametrize(
    ("strategy", "topic", "field", "record", "says"),
    [
        ("TopicName", None, "value", "R", "give topic="),
        ("TopicRecordName", None, "value", "R", "give topic="),
        ("RecordName", None, "value", None, "has no name"),
        ("TopicName", "t", "values", None, "'key' or 'value'"),
        (lambda *_: None, "t", "value", None, "returned None"),
    ],
)
def test_what_is_missing_is_told(strategy: Any, topic: str | None, field: str, record: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        subject_of(strategy, topic, field, record)

"""Consumer interceptors see what poll() hands out and what was committed, and can break nothing (KIP-42). Every API."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada.errors import ConfigError, IllegalStateError
from levada.testing import EmbeddedKafka

PATIENCE_S = 30


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def tp(kafka: Any, new_topic: Callable[..., str]) -> lv.TopicPartition:
    """A partition with six records, 0 to 5."""
    name = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(name, [b"%d" % number for number in range(6)])
    return lv.TopicPartition(name, 0)


class Odd(lv.ConsumerInterceptor):
    """Lets odd numbers through, and notes everything."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.committed: list[int] = []
        self.closes: list[int] = []

    def on_consume(self, records: lv.ConsumerRecords[Any, Any]) -> lv.ConsumerRecords[Any, Any]:
        self.seen += [int(record.value or 0) for record in records]
        return lv.ConsumerRecords(record for record in records if int(record.value or 0) % 2)

    def on_commit(self, offsets: dict[lv.TopicPartition, lv.OffsetAndMetadata]) -> None:
        self.committed += [at.offset for at in offsets.values()]

    def close(self) -> None:
        self.closes.append(len(self.seen))


class Broken(lv.ConsumerInterceptor):
    """Fails wherever it can."""

    def on_consume(self, records: lv.ConsumerRecords[Any, Any]) -> Any:
        raise LookupError("on_consume")

    def on_commit(self, offsets: dict[lv.TopicPartition, lv.OffsetAndMetadata]) -> None:
        raise LookupError("on_commit")

    def close(self) -> None:
        raise LookupError("close")


class Lost(lv.ConsumerInterceptor):
    """Forgets to return the records."""

    def on_consume(self, records: lv.ConsumerRecords[Any, Any]) -> Any:
        return None


def consumer(kafka: Any, tp: lv.TopicPartition, *interceptors: lv.ConsumerInterceptor, **settings: Any) -> Any:
    made = lv.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50, interceptors=interceptors, **settings
    )
    made.assign([tp])
    return made


def polled(reader: Any, tp: lv.TopicPartition, end: int) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while reader.position(tp) < end and time.monotonic() < deadline:
        found += [int(record.value) for record in reader.poll(1)]
    return found


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_O13_interceptors_change_what_is_handed_out_and_learn_what_was_committed(kafka: Any, tp: lv.TopicPartition) -> None:
    odd = Odd()
    with consumer(kafka, tp, odd, group_id=f"g-{uuid4().hex}", enable_auto_commit=False) as reader:
        assert polled(reader, tp, 6) == [1, 3, 5]
        assert odd.seen == list(range(6))
        reader.commit()
        assert odd.committed == [6]
        reader.commit_async({tp: 4})
        deadline = time.monotonic() + PATIENCE_S
        while odd.committed != [6, 4] and time.monotonic() < deadline:
            reader.poll(0.05)
        assert odd.committed == [6, 4]
        assert odd.closes == []
    reader.close()
    assert odd.closes == [6]


def test_O12_interceptors_learn_of_automatic_commits(kafka: Any, tp: lv.TopicPartition) -> None:
    odd = Odd()
    with consumer(kafka, tp, odd, group_id=f"g-{uuid4().hex}") as reader:
        assert polled(reader, tp, 6) == [1, 3, 5]
        assert odd.committed == []
    assert odd.committed == [6]


def test_what_an_interceptor_raises_is_logged_and_changes_nothing(
    kafka: Any, tp: lv.TopicPartition, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Odd()
    with consumer(kafka, tp, Broken(), Lost(), odd, group_id=f"g-{uuid4().hex}", enable_auto_commit=False) as reader:
        assert polled(reader, tp, 6) == [1, 3, 5]
        reader.commit()
        assert odd.committed == [6]
    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info and record.levelno == logging.ERROR]
    assert set(told) == {"on_consume", "on_commit", "close", "on_consume() returned NoneType, not ConsumerRecords"}


def test_deserializers_are_closed_with_the_consumer(kafka: Any, tp: lv.TopicPartition) -> None:
    class Deserializer:
        closed = 0

        def __call__(self, data: bytes) -> int:
            return int(data)

        def close(self) -> None:
            self.closed += 1

    both = Deserializer()
    with consumer(kafka, tp, key_deserializer=both, value_deserializer=both) as reader:
        assert reader.position(tp) == 0
    assert both.closed == 1


def test_interceptors_are_refused_where_they_would_see_nothing(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    servers = embedded.bootstrap_servers
    tp = lv.TopicPartition(new_topic(embedded), 0)
    with consumer(embedded, tp, Odd()) as reader, pytest.raises(IllegalStateError, match="interceptors see records one by one"):
        reader.poll_arrow(0)
    with pytest.raises(ConfigError, match="'interceptors' does not apply to a scan"):
        lv.scan("t", bootstrap_servers=servers, interceptors=[Odd()])
    with pytest.raises(ConfigError, match=r"derived from levada\.ConsumerInterceptor"):
        lv.KafkaConsumer(bootstrap_servers=servers, interceptors=[lv.ProducerInterceptor()])  # type: ignore[list-item]

"""Records that do not deserialize: raised, skipped, handed out as null, or written to a dead-letter topic. Both APIs, every broker."""

from __future__ import annotations

import json
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada.errors import ConfigError, DeadLetterError, RecordDeserializationError, RecordTooLargeError
from levada.registry import JSONDeserializer, JSONSerializer, RegistryError, SchemaRegistryClient
from levada.testing import EmbeddedKafka, EmbeddedRegistry
from log_lines import said
from odd_error import OddError

PATIENCE_S = 30
VALUES = [b"0", b"one", b"2", b"three", b"four", b"5"]
GOOD = [0, 2, 5]


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def topic(kafka: Any, new_topic: Callable[..., str]) -> str:
    """A topic with VALUES, of which GOOD are numbers."""
    name = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number, value in enumerate(VALUES):
            producer.send(name, value=value, key=b"key-%d" % number, headers=[("trace", b"a1")])
    return name


def consumer(kafka: Any, topic: str, **settings: Any) -> Any:
    made = lv.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **{"value_deserializer": int, **settings},
    )
    made.assign([lv.TopicPartition(topic, 0)])
    return made


def polled(reader: Any, count: int, *, at_once: int | None = None) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += reader.poll(1, at_once)
    return found


def written(kafka: Any, topic: str) -> list[Any]:
    return list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))


def dead_letter(producer: Any, topic: str) -> lv.DeadLetter:
    return lv.DeadLetter(getattr(producer, "_inner", producer), topic)


@pytest.mark.parametrize("at_once", [None, 1])
def test_F27_records_that_do_not_deserialize_are_skipped_with_a_warning(
    kafka: Any, topic: str, caplog: pytest.LogCaptureFixture, at_once: int | None
) -> None:
    caplog.set_level(logging.WARNING)
    with consumer(kafka, topic, on_decode_error="skip") as reader:
        assert [record.value for record in polled(reader, 3, at_once=at_once)] == GOOD
        assert reader.position(lv.TopicPartition(topic, 0)) == len(VALUES)
    told = [line for line in said(caplog.records) if line.startswith("skipped")]
    assert [f"{topic}-0 at offset {offset}: the value's deserializer failed" in line for offset, line in zip((1, 3, 4), told, strict=True)]


@pytest.mark.parametrize("way", ["raise", "skip", "null", "dead letters"])
def test_a_registry_that_cannot_be_asked_makes_no_record_a_bad_one(kafka: Any, new_topic: Callable[..., str], way: str) -> None:
    pytest.importorskip("jsonschema", reason="the extra jsonschema is not installed")
    name, dead = new_topic(kafka), new_topic(kafka)
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as registry:
        to_json = JSONSerializer[Any](registry, '{"title": "N", "type": "object"}', topic=name)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for value in (to_json({"n": 1}), b"rubbish", to_json({"n": 2})):
                producer.send(name, value=value)
            producer.flush()
            on_error = dead_letter(producer, dead) if way == "dead letters" else way
            reads = JSONDeserializer[Any](registry, validate=True)
            registry.clear_caches()
            with consumer(kafka, name, value_deserializer=reads, on_decode_error=on_error) as reader:
                for status, advice in ((503, "poll again, or seek to 1"), (401, "poll again"), (404, "poll again")):
                    server.faults.answer(status)
                    with pytest.raises(RecordDeserializationError, match=f"at offset 0: .*; the record may be good: {advice}") as caught:
                        polled(reader, 1)
                    assert isinstance(caught.value.__cause__, RegistryError)
                if way == "raise":
                    assert polled(reader, 1)[0].value == {"n": 1}
                    return
                expected = [{"n": 1}, None, {"n": 2}] if way == "null" else [{"n": 1}, {"n": 2}]
                assert [record.value for record in polled(reader, len(expected))] == expected
    if way == "dead letters":
        assert [letter.value for letter in written(kafka, dead)] == [b"rubbish"]


def test_F27_records_that_do_not_deserialize_are_handed_out_as_null_with_their_bytes(kafka: Any, topic: str) -> None:
    with consumer(kafka, topic, on_decode_error="null", key_deserializer=bytes.decode) as reader:
        records = polled(reader, len(VALUES))
    assert [record.value for record in records] == [0, None, 2, None, None, 5]
    assert [record.raw_value for record in records] == VALUES
    assert [record.key for record in records] == [f"key-{number}" for number in range(len(VALUES))]
    assert [record.raw_key for record in records] == [b"key-%d" % number for number in range(len(VALUES))]
    assert [record.decode_error and record.decode_error.part for record in records] == [None, "value", None, "value", "value", None]


def test_F27_a_topic_of_nothing_but_bad_records_is_read_to_its_end(kafka: Any, new_topic: Callable[..., str]) -> None:
    name = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(30):
            producer.send(name, value=b"bad")
    with consumer(kafka, name, on_decode_error="skip", max_poll_records=7) as reader:
        deadline = time.monotonic() + PATIENCE_S
        while reader.position(lv.TopicPartition(name, 0)) < 30 and time.monotonic() < deadline:
            assert reader.poll(1) == []


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_F27_dead_letters_say_where_they_are_from_and_why(kafka: Any, topic: str, new_topic: Callable[..., str]) -> None:
    dead = new_topic(kafka)
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
        consumer(kafka, topic, on_decode_error=dead_letter(producer, dead)) as reader,
    ):
        records = polled(reader, 3)
        assert [record.value for record in records] == GOOD
    letters = written(kafka, dead)
    assert [(letter.key, letter.value) for letter in letters] == [(b"key-1", b"one"), (b"key-3", b"three"), (b"key-4", b"four")]
    original = written(kafka, topic)[1]
    assert list(letters[0].headers) == [
        ("trace", b"a1"),
        ("__levada.errors.topic", topic.encode()),
        ("__levada.errors.partition", b"0"),
        ("__levada.errors.offset", b"1"),
        ("__levada.errors.timestamp", b"%d" % original.timestamp),
        ("__levada.errors.part", b"value"),
        ("__levada.errors.exception", b"ValueError"),
        ("__levada.errors.message", b"invalid literal for int() with base 10: b'one'"),
    ]


def test_F27_records_in_a_loop_and_a_scan_go_to_the_dead_letter_topic_too(kafka: Any, topic: str, new_topic: Callable[..., str]) -> None:
    dead = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        to = dead_letter(producer, dead)
        with consumer(kafka, topic, on_decode_error=to) as reader:
            seen = []
            for record in reader:
                seen.append(record.value)
                if len(seen) == 3:
                    break
        assert seen == GOOD
        whole = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, value_deserializer=int, on_decode_error=to)
        assert [record.value for record in whole] == GOOD
    assert [letter.value for letter in written(kafka, dead)] == [b"one", b"three", b"four"] * 2


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_O14_nothing_is_committed_past_a_dead_letter_that_is_not_acknowledged(
    kafka: Any, topic: str, new_topic: Callable[..., str]
) -> None:
    """A producer that lingers has the letters for a while: records before come out, and positions stay."""
    tp, dead = lv.TopicPartition(topic, 0), new_topic(kafka)
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=3_600_000, delivery_timeout_ms=7_200_000) as producer,
        consumer(
            kafka, topic, on_decode_error=dead_letter(producer, dead), group_id=f"g-{uuid4().hex}", enable_auto_commit=False
        ) as reader,
    ):
        assert [record.value for record in polled(reader, 1)] == [0]
        assert reader.poll(0.3) == []
        reader.commit()
        assert reader.committed([tp])[tp].offset == reader.position(tp) == 1
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < 2 and time.monotonic() < deadline:
            # Each time: letters of what comes later linger as well.
            producer.flush()
            found += reader.poll(0.3)
        assert [record.value for record in found] == GOOD[1:]
        reader.commit()
        assert reader.committed([tp])[tp].offset == len(VALUES)
    assert [letter.value for letter in written(kafka, dead)] == [b"one", b"three", b"four"]


def test_F11_a_dead_letter_that_cannot_be_written_is_an_error_and_tried_again(
    kafka: Any, topic: str, new_topic: Callable[..., str]
) -> None:
    dead = new_topic(kafka)
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_request_size=64) as producer,
        consumer(kafka, topic, on_decode_error=dead_letter(producer, dead)) as reader,
    ):
        assert [record.value for record in polled(reader, 1)] == [0]
        for _ in range(2):
            with pytest.raises(DeadLetterError, match=f"{topic}-0 at offset 1: .*dead-letter topic '{dead}'.*seek to 2") as caught:
                polled(reader, 1)
            assert isinstance(caught.value.__cause__, RecordTooLargeError)
            assert caught.value.record.value == b"one"
        reader.seek(lv.TopicPartition(topic, 0), 2)
        assert [record.value for record in polled(reader, 1)] == [2]
    assert written(kafka, dead) == []


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
@pytest.mark.parametrize("size", [600_000, 1_048_576 - 100])
def test_F27_a_long_record_and_an_exception_that_quotes_it_go_to_the_dead_letter_topic(
    kafka: Any, new_topic: Callable[..., str], size: int
) -> None:
    """The second record fits into max.request.size, and not with the headers that say where it is from."""
    name, dead = new_topic(kafka), new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in (b"x" * size, b"2"):
            producer.send(name, value=value).result(PATIENCE_S)
        with consumer(kafka, name, on_decode_error=dead_letter(producer, dead), value_deserializer=quoting) as reader:
            assert [record.value for record in polled(reader, 1)] == [2]
    (letter,) = written(kafka, dead)
    assert letter.value == b"x" * size
    # The first name is that of the record's topic.
    told = {header.removeprefix("__levada.errors."): text for header, text in letter.headers}
    if size == 600_000:
        assert told["message"].startswith(b"no number: b'xxx")
    else:
        assert "message" not in told


def quoting(data: bytes) -> int:
    if not data.isdigit():
        raise ValueError(f"no number: {data!r}")
    return int(data)


TEXTS = [b"a", b"\xff", b"c", b"\xfe", b"\xfd", None, b"f"]


@pytest.mark.parametrize(("what", "expected"), [("skip", ["a", "c", None, "f"]), ("null", ["a", None, "c", None, None, None, "f"])])
@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("at_once", [None, 2])
def test_F27_columns_of_text_obey_it_too(
    embedded: EmbeddedKafka, new_topic: Callable[..., str], what: Any, expected: list[str | None], compression: Any, at_once: int | None
) -> None:
    pytest.importorskip("pyarrow")
    name = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, compression_type=compression) as producer:
        for text in TEXTS:
            producer.send(name, value=text)
    with consumer(embedded, name, value_deserializer=None, on_decode_error=what) as reader:
        found: list[str | None] = []
        while len(found) < len(expected):
            found += reader.poll_arrow(5, at_once, columns=["value"], text=["value"])["value"].to_pylist()
        assert found == expected
        assert reader.position(lv.TopicPartition(name, 0)) == len(TEXTS)
    whole = lv.scan(name, bootstrap_servers=embedded.bootstrap_servers, columns=["value"], text=["value"], on_decode_error=what)
    assert whole.to_table()["value"].to_pylist() == expected


def test_F27_columns_of_text_go_to_the_dead_letter_topic_too(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    name, dead = new_topic(embedded), new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for text in TEXTS:
            producer.send(name, value=text)
        with consumer(embedded, name, value_deserializer=None, on_decode_error=lv.DeadLetter(producer, dead)) as reader:
            found: list[str | None] = []
            while len(found) < 4:
                found += reader.poll_arrow(5, columns=["value"], text=["value"])["value"].to_pylist()
            assert found == ["a", "c", None, "f"]
    letters = list(lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers))
    assert [letter.value for letter in letters] == [b"\xff", b"\xfe", b"\xfd"]
    told = dict(letters[0].headers)["__levada.errors.message"]
    assert told is not None
    assert told.startswith(f"{name}-0 at offset 1: its value is not UTF-8 (byte 0: invalid start byte)".encode())


@pytest.mark.parametrize("what", ["skip", "null", "raise", "dead letter"])
def test_F27_an_exception_without_text_is_one_as_well(kafka: Any, topic: str, new_topic: Callable[..., str], what: str) -> None:
    def odd(data: bytes) -> int:
        if not data.isdigit():
            raise OddError("x")
        return int(data)

    dead = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        how = dead_letter(producer, dead) if what == "dead letter" else what
        with consumer(kafka, topic, value_deserializer=odd, on_decode_error=how) as reader:
            if what == "raise":
                assert [record.value for record in polled(reader, 1)] == [0]
                with pytest.raises(RecordDeserializationError, match="the value's deserializer failed: OddError: "):
                    polled(reader, 1)
                return
            found = [record.value for record in polled(reader, 6 if what == "null" else 3)]
            assert [value for value in found if value is not None] == GOOD
    if what == "dead letter":
        assert [dict(letter.headers)["__levada.errors.message"] for letter in written(kafka, dead)] == [b"OddError('x')"] * 3


def test_a_decoded_record_keeps_its_bytes_wherever_it_goes(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    name = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send(name, value=b'{"a": 1}', key=b"k")
    with consumer(embedded, name, value_deserializer=json.loads) as reader:
        (record,) = polled(reader, 1)
    assert (record.value, record.raw_value, record.key, record.raw_key) == ({"a": 1}, b'{"a": 1}', b"k", b"k")
    assert record.decode_error is None
    for same in (pickle.loads(pickle.dumps(record)), record._replace(key=b"k")):
        assert same == record
        assert same.raw_value == record.raw_value
    with consumer(embedded, name, value_deserializer=None) as reader:
        (plain,) = polled(reader, 1)
    assert type(plain) is lv.ConsumerRecord
    assert (plain.raw_key, plain.raw_value, plain.decode_error) == (plain.key, plain.value, None)


def test_what_cannot_be_done_about_such_records_is_refused(embedded: EmbeddedKafka) -> None:
    servers = embedded.bootstrap_servers
    with pytest.raises(ConfigError, match=r"must be one of raise, skip, null, or a levada\.DeadLetter"):
        lv.KafkaConsumer(bootstrap_servers=servers, on_decode_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="wants a KafkaProducer first"):
        lv.KafkaConsumer(bootstrap_servers=servers, on_decode_error=lv.DeadLetter("dead", "dead"))
    with lv.KafkaProducer(bootstrap_servers=servers, value_serializer=json.dumps) as producer:
        with pytest.raises(ConfigError, match="wants the name of a topic second"):
            lv.KafkaConsumer(bootstrap_servers=servers, on_decode_error=lv.DeadLetter(producer, ""))
        with pytest.raises(ConfigError, match=r"the DeadLetter has a value\.serializer"):
            lv.KafkaConsumer(bootstrap_servers=servers, on_decode_error=lv.DeadLetter(producer, "dead"))
    with (
        lv.KafkaProducer(bootstrap_servers=servers, transactional_id="t") as producer,
        pytest.raises(ConfigError, match=r"the DeadLetter has a transactional\.id"),
    ):
        lv.scan("t", bootstrap_servers=servers, on_decode_error=lv.DeadLetter(producer, "dead")).__iter__().__next__()


def test_F27_by_default_the_error_comes_again_and_names_the_part(kafka: Any, topic: str) -> None:
    def broken(key: bytes) -> Any:
        raise LookupError("no such key")

    with consumer(kafka, topic, key_deserializer=broken) as reader:
        for _ in range(2):
            with pytest.raises(
                RecordDeserializationError, match="at offset 0: the key's deserializer failed: LookupError: no such key"
            ) as caught:
                polled(reader, 1)
            assert isinstance(caught.value.__cause__, LookupError)
            assert not caught.value.retriable
            assert (caught.value.part, caught.value.record.key, caught.value.record.value) == ("key", b"key-0", b"0")

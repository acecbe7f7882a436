"""Record batches that one producer seals and another one sends, on both APIs, the embedded broker and real ones."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from api_kit import WITH_SOCKETS, api_and_broker
from levada.errors import (
    BufferExhaustedError,
    CorruptRecordError,
    IllegalStateError,
    InvalidRecordError,
    RecordTooLargeError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from levada.interceptors import ProducerInterceptor
from levada.record.batch import RecordBatch, seal
from levada.types import SealedBatch, TopicPartition

ROWS = pa.table(
    {
        "k": [None if number % 3 else f"key-{number}" for number in range(500)],
        "v": [f"value-{number}" for number in range(500)],
        "h": [[("number", str(number).encode())] if number % 7 == 0 else None for number in range(500)],
    },
    schema=pa.schema([("k", pa.string()), ("v", pa.string()), ("h", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))]),
)
COLUMNS: dict[str, Any] = {"key": "k", "value": "v", "headers": "h"}


@pytest.fixture(params=WITH_SOCKETS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


def read(kafka: Any, topic: str) -> list[tuple[int, int, Any, Any, Any]]:
    records = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    return sorted((record.partition, record.offset, record.key, record.value, tuple(record.headers)) for record in records)


def values(kafka: Any, topic: str) -> list[str]:
    return [value.decode() for _, _, _, value, _ in read(kafka, topic)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sealed_and_sent_is_what_would_have_been_sent(kafka: Any, new_topic: Any, codec: str) -> None:
    topic, beside = new_topic(kafka, 4), new_topic(kafka, 4)
    settings: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "compression_type": codec, "batch_size": 2000}
    with lv.KafkaProducer(**settings) as sealing:
        batches = sealing.seal_arrow(topic, ROWS, **COLUMNS)
        sealing.send_arrow(beside, ROWS, **COLUMNS).result()
    assert sum(batch.records_count for batch in batches) == ROWS.num_rows
    assert len(batches) > 4
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as sending:
        report = sending.send_sealed(pickle.loads(pickle.dumps(batches))).result()
    assert (report.rows, report.failed) == (ROWS.num_rows, 0)
    written, expected = read(kafka, topic), read(kafka, beside)
    assert sorted(row[2:] for row in written if row[2]) == sorted(row[2:] for row in expected if row[2])
    assert {row[0:1] + row[2:] for row in written if row[2]} == {row[0:1] + row[2:] for row in expected if row[2]}
    assert sorted(row[3] for row in written) == sorted(row[3] for row in expected)


def test_they_belong_to_the_transaction_of_the_producer_that_sends_them(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as sealing:
        batches = sealing.seal_arrow(topic, ROWS, value="v")
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as sending:
        sending.init_transactions()
        with pytest.raises(IllegalStateError, match=r"records of transactional id .* are sent within a transaction"):
            sending.send_sealed(batches)
        sending.begin_transaction()
        aborted = sending.send_sealed(batches)
        sending.abort_transaction()
        assert isinstance(aborted.exception(), TransactionAbortedError | None)
        sending.begin_transaction()
        sent = sending.send_sealed(batches)
        sending.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, f"{topic}-group")
        sending.commit_transaction()
        assert sent.result().rows == ROWS.num_rows
    assert sorted(values(kafka, topic)) == sorted(ROWS["v"].to_pylist())


def test_they_come_behind_what_was_sent_before_and_before_what_is_sent_after(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        batches = producer.seal_arrow(topic, ROWS.slice(0, 3), value="v")
        for turn in range(3):
            producer.send(topic, f"before-{turn}")
            producer.send_sealed(batches)
            producer.send(topic, f"after-{turn}")
    one_turn = ["value-0", "value-1", "value-2"]
    assert values(kafka, topic) == [value for turn in range(3) for value in (f"before-{turn}", *one_turn, f"after-{turn}")]


def test_bytes_of_the_caller_stay_as_they_are(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        (batch,) = producer.seal_arrow(topic, ROWS.slice(0, 5), value="v")
        before = bytes(batch.data)
        changing = batch._replace(data=bytearray(batch.data))  # type: ignore[arg-type]
        producer.send_sealed([changing, changing]).result()
        assert changing.data == before
    assert values(kafka, topic) == [f"value-{number}" for number in range(5)] * 2


def test_a_batch_that_the_broker_finds_too_large_is_split(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 1, {"max.message.bytes": 1000})
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, batch_size=100_000) as producer:
        batches = producer.seal_arrow(topic, ROWS, value="v")
        assert [batch.records_count for batch in batches] == [ROWS.num_rows]
        assert producer.send_sealed(batches).result().rows == ROWS.num_rows
    assert values(kafka, topic) == ROWS["v"].to_pylist()


def test_a_small_memory_is_waited_for(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, batch_size=500) as sealing:
        batches = sealing.seal_arrow(topic, ROWS, value="v")
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=5000, batch_size=500) as sending:
        assert sending.send_sealed(batches).result().rows == ROWS.num_rows
    assert values(kafka, topic) == ROWS["v"].to_pylist()


def test_no_batch_is_sealed_that_never_fits_into_memory(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, buffer_memory=5000, batch_size=100_000) as producer:
        assert producer.send_sealed(producer.seal_arrow(topic, ROWS, value="v")).result().rows == ROWS.num_rows
    assert values(embedded, topic) == ROWS["v"].to_pylist()


def test_a_batch_that_never_fits_is_refused(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        batches = producer.seal_arrow(topic, ROWS, value="v")
    with (
        lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_request_size=1000, batch_size=1000) as small,
        pytest.raises(RecordTooLargeError, match=rf"sealed batch for {topic}-0 \(\d+ bytes\): more than max\.request\.size=1000"),
    ):
        small.send_sealed(batches)
    with (
        lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, buffer_memory=4000, batch_size=1000) as poor,
        pytest.raises(RecordTooLargeError, match=r"more than buffer\.memory=4000"),
    ):
        poor.send_sealed(batches)


def test_memory_that_does_not_become_free_ends_the_call(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    settings: dict[str, Any] = {"bootstrap_servers": embedded.bootstrap_servers, "max_block_ms": 50, "buffer_memory": 20_000}
    with lv.KafkaProducer(**settings, batch_size=8000) as producer:
        batches = producer.seal_arrow(topic, ROWS, value="v")
        assert len(batches) > 1
        hold = embedded.faults.hold("Produce")
        try:
            with pytest.raises(BufferExhaustedError, match=r"did not become free within max\.block\.ms=50"):
                producer.send_sealed(batches * 20)
        finally:
            hold.release()


@pytest.mark.parametrize(
    ("row", "error", "why"),
    [
        ({"v": b"x" * 2000, "t": 1, "p": 0}, RecordTooLargeError, "row 1 .* more than the 1000 allowed"),
        ({"v": b"x", "t": -1, "p": 0}, InvalidRecordError, "row 1 .* timestamp -1"),
        ({"v": b"x", "t": 1, "p": 9}, InvalidRecordError, "row 1 .* partition 9: the topic has 1 partitions"),
    ],
)
def test_a_row_that_cannot_be_sent_is_an_error_of_sealing(embedded: Any, new_topic: Any, row: Any, error: Any, why: str) -> None:
    topic = new_topic(embedded)
    rows = pa.Table.from_pylist([{"v": b"fits", "t": 5, "p": 0}, row, {"v": b"fits", "t": 5, "p": 0}])
    with (
        lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_request_size=1000, batch_size=1000) as producer,
        pytest.raises(error, match=why),
    ):
        producer.seal_arrow(topic, rows, value="v", timestamp="t", partition="p")


def numbered(batch: SealedBatch) -> bytes:
    data = bytearray(batch.data)
    struct.pack_into(">q", data, 43, 7)
    seal(data)
    return bytes(data)


def control(batch: SealedBatch) -> bytes:
    data = bytearray(batch.data)
    data[22] |= 0x20
    seal(data)
    return bytes(data)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda batch: b"", "no record batch of magic 2"),
        (lambda batch: b"\x00" * 61, "no record batch of magic 2"),
        (lambda batch: batch.data[:-1], "checksum|length does not fit"),
        (lambda batch: batch.data + b"\x00", "checksum|length does not fit"),
        (lambda batch: batch.data[:-1] + b"\xff", "checksum"),
        (lambda batch: batch.data[:16] + b"\x01" + batch.data[17:], "no record batch of magic 2"),
        (numbered, "it has a producer id already"),
        (control, "a control batch"),
        (lambda batch: batch.data * 2, "checksum|length does not fit"),
    ],
)
def test_bytes_that_are_no_sealed_batch_are_refused(embedded: Any, new_topic: Any, spoil: Any, why: str) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        (batch,) = producer.seal_arrow(topic, ROWS.slice(0, 9), value="v")
        with pytest.raises(CorruptRecordError, match=rf"sealed batch for {topic}-0 .*({why})"):
            producer.send_sealed([batch._replace(data=spoil(batch))])
        with pytest.raises(CorruptRecordError, match="its number of records does not fit"):
            producer.send_sealed([batch._replace(records_count=8)])
    assert values(embedded, topic) == []


def test_topics_and_partitions_that_do_not_exist_are_named(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_block_ms=200) as producer:
        (batch,) = producer.seal_arrow(topic, ROWS.slice(0, 9), value="v")
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-3 does not exist"):
            producer.send_sealed([batch._replace(partition=3)])


def test_interceptors_would_be_passed_by(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, interceptors=[ProducerInterceptor()]) as producer:
        for call in (lambda: producer.seal_arrow(topic, ROWS, value="v"), lambda: producer.send_sealed([])):
            with pytest.raises(IllegalStateError, match="interceptors cannot be shown the records of sealed batches"):
                call()


def test_a_lost_answer_writes_nothing_twice(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, batch_size=500, request_timeout_ms=2_000) as producer:
        batches = producer.seal_arrow(topic, ROWS, value="v")
        embedded.faults.drop_response("Produce", nth=1)
        producer.send_sealed(batches).result()
    assert values(embedded, topic) == ROWS["v"].to_pylist()


def test_what_is_sealed_says_what_it_holds(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded, 3)
    rows = ROWS.append_column("p", pa.array([number % 3 for number in range(ROWS.num_rows)]))
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        batches = producer.seal_arrow(topic, rows, value="v", partition="p")
        assert producer.seal_arrow(topic, rows.slice(0, 0), value="v") == []
    for batch in batches:
        found = [record.value for record in RecordBatch(memoryview(batch.data)).records()]
        assert len(found) == batch.records_count
        assert found == [f"value-{number}".encode() for number in range(500) if number % 3 == batch.partition]

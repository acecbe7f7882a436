"""Records that fail while nobody listens are counted by flush() and close(), once; those that were asked about are not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

import levada as lv
from levada import aio
from levada.error_codes import ErrorCode
from levada.testing import EmbeddedKafka
from log_lines import said

TOO_LARGE = b"x" * 2_000_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1, auto_create_topics_enable=False) as kafka:
        kafka.create_topic("t")
        # The broker refuses what the producer takes.
        kafka.create_topic("small", config={"max.message.bytes": "100"})
        yield kafka


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Iterator[lv.KafkaProducer]:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=300) as producer:
        yield producer


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return said(caplog.records, logging.WARNING)


def test_the_end_of_with_counts_records_of_a_topic_that_is_missing(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=100) as producer:
        for number in range(3):
            producer.send("nope", str(number))
    [line] = warnings(caplog)
    assert line.startswith("3 records failed and were not asked about; the first: topic 'nope': the broker says it does not exist")


def test_flush_counts_what_the_broker_refused_and_says_it_once(producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture) -> None:
    producer.send("small", b"x" * 500)
    producer.flush()
    producer.close()
    [line] = warnings(caplog)
    assert line.startswith("1 record failed and was not asked about; the first: small-0: the broker refuses a record")


def test_flush_counts_records_that_are_too_large_to_be_taken(producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture) -> None:
    producer.send("t", TOO_LARGE)
    producer.flush()
    assert warnings(caplog)[0].startswith("1 record failed and was not asked about; the first: a record for topic 't' takes up to")


def test_flush_counts_rows_that_cannot_be_sent(producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture) -> None:
    rows = pa.table({"value": ["x", "y", "z"], "partition": [0, 99, 98]})
    producer.send_arrow("t", rows, value="value", partition="partition")
    producer.flush()
    assert warnings(caplog)[0].startswith("2 records failed and were not asked about; the first: row 1 for topic 't'")


def test_what_was_asked_about_is_not_counted(producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture) -> None:
    told: list[object] = []
    for value, topic in ((TOO_LARGE, "t"), (b"x" * 500, "small")):
        assert producer.send(topic, value).exception() is not None
        producer.send(topic, value, on_delivery=lambda metadata, error: told.append(error))
    rows = producer.send_arrow("t", pa.table({"value": ["x"], "partition": [99]}), value="value", partition="partition")
    assert rows.report().failed == 1
    producer.flush()
    producer.close()
    assert len(told) == 2
    assert warnings(caplog) == []


def test_records_of_one_batch_are_asked_about_one_by_one(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=500) as producer:
        kafka.faults.fail_next("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        deliveries = [producer.send("t", b"v") for _ in range(5)]
        for _ in range(2):
            assert deliveries[3].exception() is not None
    [line] = warnings(caplog)
    assert line.startswith("4 records failed and were not asked about")


def test_what_a_transaction_raised_is_not_counted(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="told") as producer:
        for value, topic in ((TOO_LARGE, "t"), (b"x" * 500, "small")):
            with pytest.raises(lv.errors.TransactionAbortableError) as raised, producer.transaction():
                producer.send("t", b"v")
                producer.send(topic, value)
            assert isinstance(raised.value.__cause__, lv.errors.RecordTooLargeError)
            assert raised.value.persisted is lv.Persisted.UNKNOWN, "the first record may be in the log, aborted"
    assert warnings(caplog) == []


def test_on_asyncio_too(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send("t", TOO_LARGE)
            await producer.flush()
            with pytest.raises(lv.errors.RecordTooLargeError):
                await (await producer.send("t", TOO_LARGE))

    asyncio.run(program())
    [line] = warnings(caplog)
    assert line.startswith("1 record failed and was not asked about")

"""Other clients' consumers, as workers with the same interface as levada's."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from consume_levada import read_values_async
from consume_meter import AT_ONCE, PARTITIONS, WAIT_S, Job, Meter
from engine_process import Figures


def confluent(**given: Any) -> Figures:
    """Consumer with assign(). form: count, values, table, or poll."""
    import pyarrow as pa
    from confluent_kafka import Consumer, TopicPartition

    # pyarrow imports pandas for the first timestamp, and importing is not part of reading.
    pa.array([0], pa.timestamp("ms", "UTC"))
    job = Job(**given)
    meter = Meter(job.records)
    group = {"group.id": f"bench-{uuid.uuid4()}", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": job.bootstrap_servers, **group, **job.settings})
    consumer.assign([TopicPartition(job.topic, partition, 0) for partition in range(PARTITIONS)])
    if job.form == "poll":
        _poll(consumer, meter)
    else:
        _consume(consumer, meter, READERS[job.form])
    consumer.close()
    return meter.figures


def _consume(consumer: Any, meter: Meter, read: Any) -> None:
    while missing := meter.missing:
        # A call waits until it has the requested number of messages.
        meter.took(read(consumer.consume(min(AT_ONCE, missing), WAIT_S)))


def _poll(consumer: Any, meter: Meter) -> None:
    poll = consumer.poll
    while missing := meter.missing:
        count = 0
        while count < missing:
            message = poll(WAIT_S)
            if message is not None and message.error() is None and message.value() is not None:
                count += 1
        meter.took(count)


def _count(messages: list[Any]) -> int:
    """Do the least that a program must do: check whether a message is a record or an error."""
    count = 0
    for message in messages:
        if message.error() is None:
            count += 1
    return count


def _values(messages: list[Any]) -> int:
    count = 0
    for message in messages:
        if message.error() is None and message.value() is not None:
            count += 1
    return count


def _table(messages: list[Any]) -> int:
    """Make the columns of poll_arrow(); return the number of rows."""
    import pyarrow as pa

    rows: int = pa.table(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.array([message.topic() for message in messages], pa.string()).dictionary_encode(),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
        }
    ).num_rows
    return rows


READERS = {"count": _count, "values": _values, "table": _table}


def aiokafka(**given: Any) -> Figures:
    """AIOKafkaConsumer with assign(). form: getmany, or iteration."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    job = Job(**given)

    async def work() -> Figures:
        meter = Meter(job.records)
        settings = {"auto_offset_reset": "earliest", **job.settings}
        async with AIOKafkaConsumer(bootstrap_servers=job.bootstrap_servers, **settings) as consumer:
            consumer.assign([TopicPartition(job.topic, partition) for partition in range(PARTITIONS)])
            await (_getmany if job.form == "getmany" else read_values_async)(consumer, meter)
        return meter.figures

    return asyncio.run(work())


async def _getmany(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        found = await consumer.getmany(timeout_ms=int(WAIT_S * 1000))
        meter.took(_lists_with_values(found))


def kafka_python(**given: Any) -> Figures:
    """KafkaConsumer of kafka-python with assign()."""
    from kafka import KafkaConsumer, TopicPartition

    job = Job(**given)
    meter = Meter(job.records)
    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False, **job.settings
    )
    consumer.assign([TopicPartition(job.topic, partition) for partition in range(PARTITIONS)])
    while meter.missing:
        meter.took(_lists_with_values(consumer.poll(timeout_ms=int(WAIT_S * 1000), max_records=AT_ONCE)))
    consumer.close()
    return meter.figures


def _lists_with_values(found: dict[Any, list[Any]]) -> int:
    count = 0
    for records in found.values():
        for record in records:
            if record.value is not None:
                count += 1
    return count

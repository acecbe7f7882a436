"""levada's consumers and scans, as workers."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from consume_meter import AT_ONCE, PARTITIONS, WAIT_S, Job, Meter
from engine_process import Figures

EARLIEST = {"auto_offset_reset": "earliest"}


def assigned(**given: Any) -> Figures:
    """KafkaConsumer with assign()."""
    levada, job, meter = _begin(given)
    with levada.KafkaConsumer(bootstrap_servers=job.bootstrap_servers, **EARLIEST, **job.settings) as consumer:
        consumer.assign(_partitions(levada, job))
        READERS[job.form](consumer, meter)
    return meter.figures


def subscribed(**given: Any) -> Figures:
    """KafkaConsumer as the only member of a group, with auto-commit and a listener."""
    levada, job, meter = _begin(given)
    group = {"bootstrap_servers": job.bootstrap_servers, "group_id": f"bench-{uuid.uuid4()}"}
    with levada.KafkaConsumer(**group, **EARLIEST, **job.settings) as consumer:
        consumer.subscribe([job.topic], on_assigned=_ignore, on_revoked=_ignore)
        READERS[job.form](consumer, meter)
    return meter.figures


def scanned(**given: Any) -> Figures:
    """levada.scan of the whole topic."""
    levada, job, meter = _begin(given)
    scan = levada.scan(job.topic, bootstrap_servers=job.bootstrap_servers, **job.settings)
    if job.form == "arrow":
        for batch in scan.arrow():
            meter.took(batch.num_rows)
    else:
        _read_values(scan, meter)
    return meter.figures


def asynchronous(**given: Any) -> Figures:
    """levada.aio.KafkaConsumer with assign()."""
    from levada.aio import KafkaConsumer

    levada, job, meter = _begin(given)

    async def work() -> Figures:
        async with KafkaConsumer(bootstrap_servers=job.bootstrap_servers, **EARLIEST, **job.settings) as consumer:
            consumer.assign(_partitions(levada, job))
            await ASYNC_READERS[job.form](consumer, meter)
        return meter.figures

    return asyncio.run(work())


def _begin(given: dict[str, Any]) -> tuple[Any, Job, Meter]:
    # Imported here, because levada imports its names at first use, and importing is not part of reading.
    import pyarrow  # noqa: F401

    import levada
    from levada import KafkaConsumer, scan  # noqa: F401

    job = Job(**given)
    return levada, job, Meter(job.records)


def _partitions(levada: Any, job: Job) -> list[Any]:
    return [levada.TopicPartition(job.topic, partition) for partition in range(PARTITIONS)]


def _ignore(_: Any) -> None:
    pass


def _columns(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took(consumer.poll_arrow(timeout=WAIT_S).num_rows)


def _columns_by_500(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took(consumer.poll_arrow(timeout=WAIT_S, max_records=500).num_rows)


def _poll(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took(_with_value(consumer.poll(timeout=WAIT_S)))


def _poll_many(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took(_with_value(consumer.poll(timeout=WAIT_S, max_records=AT_ONCE)))


def _with_value(records: Any) -> int:
    """Read every value; return their number."""
    count = 0
    for record in records:
        if record.value is not None:
            count += 1
    return count


def _read_values(records: Any, meter: Meter) -> None:
    """Read all values in one loop."""
    count, missing = 0, meter.missing
    for record in records:
        if record.value is not None:
            count += 1
            if count == missing:
                meter.took(count)
                count, missing = 0, meter.missing
                if not missing:
                    return


READERS = {"arrow": _columns, "arrow by 500": _columns_by_500, "poll": _poll, "poll many": _poll_many, "iteration": _read_values}


async def _async_columns(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took((await consumer.poll_arrow(timeout=WAIT_S)).num_rows)


async def _async_poll(consumer: Any, meter: Meter) -> None:
    while meter.missing:
        meter.took(_with_value(await consumer.poll(timeout=WAIT_S)))


async def read_values_async(consumer: Any, meter: Meter) -> None:
    """`async for` over all records, of any client."""
    count, missing = 0, meter.missing
    async for record in consumer:
        if record.value is not None:
            count += 1
            if count == missing:
                meter.took(count)
                count, missing = 0, meter.missing
                if not missing:
                    return


ASYNC_READERS = {"arrow": _async_columns, "poll": _async_poll, "iteration": read_values_async}

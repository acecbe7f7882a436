"""levada perf: measures the throughput of writing and reading, and the latency of records."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from levada.cli.arguments import not_empty
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation
from levada.cli.offsets import EVERYTHING
from levada.cli.outcomes import failures_told_once
from levada.cli.positions import settled
from levada.cli.progress import Pace
from levada.cli.records.columns import check_pyarrow
from levada.errors import KafkaError
from levada.types import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import Delivery, KafkaConsumer
    from levada.cli.progress import Progress

app = command_group("Measure throughput and latency of a cluster.")

MOST_SAMPLES = 10_000
ROWS_AT_ONCE = 10_000
BYTES_AT_ONCE = 16 << 20
"""Largest size of an Arrow batch, unless one value is larger. Batches of ROWS_AT_ONCE large values would not fit into memory."""
POLL_S = 1.0
ARRIVAL_S = 30.0
"""Time in seconds that perf latency waits until it reads a record that it wrote."""

Records = Annotated[int, Option("-n", "--records", min=1, help="Number of records.")]
Size = Annotated[int, Option("-s", "--size", min=0, help="Size of each value in bytes.")]
Columns = Annotated[bool, Option("--columns", help="Use Arrow columns instead of single records.")]
Topic = Annotated[str, Argument(metavar="TOPIC", show_default=False, help="The topic. Its records are not deleted afterwards.")]


class Latencies(NamedTuple):
    """Percentiles of latencies, in ms: half of the records took at most p50_ms, 95 % at most p95_ms, and so on."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class Measured(NamedTuple):
    """The result of a measurement. mb_per_second: in 1,000,000 bytes of keys and values. latency: None if it was not measured."""

    records: int
    seconds: float
    records_per_second: float
    mb_per_second: float
    latency: Latencies | None = None


@command(app)
def produce(
    run: Invocation,
    topic: Topic,
    records: Records = 1_000_000,
    size: Size = 100,
    rate: Annotated[float | None, Option("--rate", min=0.001, help="Maximum number of records per second.")] = None,
    columns: Columns = False,
) -> None:
    """Write records as fast as the cluster and --rate allow. Print the throughput and, without --columns, the acknowledgements' latency."""
    value = os.urandom(size)
    if columns:
        check_pyarrow("columns")
    with failures_told_once(), run.producer() as producer, run.progress(f"perf produce {topic}", total=records) as bar:
        producer.partitions_for(topic)
        began_s = time.perf_counter()
        if columns:
            taken_ms = _send_columns(producer, topic, records, value, Pace(rate), bar)
        else:
            taken_ms = _send(producer, topic, records, value, Pace(rate), bar)
        seconds = time.perf_counter() - began_s
    run.show(measured(records, records * size, seconds, taken_ms))


@command(app)
def consume(
    run: Invocation,
    topic: Topic,
    records: Annotated[int | None, Option("-n", "--records", min=1, help="Number of records. Default: all records of the topic.")] = None,
    columns: Columns = False,
) -> None:
    """Read records from the start of a topic as fast as possible. Print the throughput."""
    with run.consumer(enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        ranges = settled(consumer, [topic], EVERYTHING)
        consumer.assign(ranges, {tp: span.end for tp, span in ranges.items()})
        consumer.seek_to_beginning()
        there = sum(span.end - span.start for span in ranges.values())
        if not there:
            raise CommandError(f"topic '{topic}' has no records, so there is nothing to measure")
        wanted = records or there
        with run.progress(f"perf consume {topic}", total=wanted) as bar:
            began_s = time.perf_counter()
            read, size = _read(consumer, wanted, len(ranges), columns, bar)
            seconds = time.perf_counter() - began_s
    run.show(measured(read, size, seconds, ()))


@command(app)
def latency(
    run: Invocation,
    topic: Topic,
    records: Records = 1_000,
    size: Size = 100,
    partition: Annotated[int, Option("-p", "--partition", min=0, help="The partition to write and read.")] = 0,
) -> None:
    """Write single records and read each of them back. Print the latency from the call of send() until the record is read."""
    [name] = not_empty([topic], "TOPIC")
    tp = TopicPartition(name, partition)
    taken_ms: list[float] = []
    with (
        run.consumer(enable_auto_commit=False, auto_offset_reset="latest") as consumer,
        run.producer(linger_ms=0) as producer,
        run.progress(f"perf latency {topic}", total=records) as bar,
    ):
        consumer.assign([tp])
        consumer.seek(tp, consumer.end_offsets([tp])[tp])
        began_s = time.perf_counter()
        for number in range(records):
            value = b"%d-%d" % (os.getpid(), number)
            sent_s = time.perf_counter()
            sent = producer.send(topic, value.ljust(size, b"."), partition=partition)
            _wait_for(consumer, value.ljust(size, b"."), sent)
            taken_ms.append((time.perf_counter() - sent_s) * 1000)
            bar.advance()
        seconds = time.perf_counter() - began_s
    run.show(measured(records, records * size, seconds, taken_ms))


def measured(records: int, size: int, seconds: float, taken_ms: Sequence[float]) -> Measured:
    """Return the rates of records that took a number of seconds. size: bytes of all keys and values. taken_ms: latencies."""
    per_second = 1 / max(seconds, 1e-9)
    return Measured(records, round(seconds, 3), round(records * per_second, 1), round(size / 1e6 * per_second, 3), percentiles(taken_ms))


def percentiles(taken_ms: Sequence[float]) -> Latencies | None:
    """Return the percentiles of latencies, None if there are none. p95_ms is the smallest of them that at least 95 % do not exceed."""
    if not taken_ms:
        return None
    ordered = sorted(taken_ms)
    p50, p95, p99 = (ordered[max(-(-len(ordered) * share // 100) - 1, 0)] for share in (50, 95, 99))
    return Latencies(*(round(ms, 3) for ms in (p50, p95, p99, ordered[-1])))


class _Samples:
    """Latencies of the acknowledgements of some records. Measuring every record would slow down the measurement."""

    def __init__(self, records: int) -> None:
        self.taken_ms: list[float] = []
        self._every = max(records // MOST_SAMPLES, 1)

    def callback(self, number: int) -> Any:
        """Return the delivery callback of a record, None if its latency is not measured. number: of the record, from 0."""
        if number % self._every:
            return None
        sent_s = time.perf_counter()

        def delivered(_: RecordMetadata, error: KafkaError | None) -> None:
            self.taken_ms.append((time.perf_counter() - sent_s) * 1000)

        return delivered


def _send(producer: Any, topic: str, records: int, value: bytes, pace: Pace, bar: Progress) -> Sequence[float]:
    samples = _Samples(records)
    deliveries = []
    for number in range(records):
        pace.wait()
        delivery = producer.send(topic, value, on_delivery=samples.callback(number))
        if not number % ROWS_AT_ONCE:
            deliveries.append(delivery)
            bar.update(number)
    producer.flush()
    for sent in [*deliveries, delivery]:
        sent.result()
    return samples.taken_ms


def _send_columns(producer: Any, topic: str, records: int, value: bytes, pace: Pace, bar: Progress) -> Sequence[float]:
    from levada.cli.records.columns import constant_rows

    rows = constant_rows("value", value, min(ROWS_AT_ONCE, pace.at_once, records, max(BYTES_AT_ONCE // max(len(value), 1), 1)))
    sent = 0
    deliveries = []
    while sent < records:
        part = rows.slice(0, records - sent)
        pace.wait(part.num_rows)
        deliveries.append(producer.send_arrow(topic, part, value="value"))
        sent += part.num_rows
        bar.update(sent)
    producer.flush()
    for delivery in deliveries:
        delivery.result()
    return ()


def _read(consumer: KafkaConsumer[Any, Any], wanted: int, partitions: int, columns: bool, bar: Progress) -> tuple[int, int]:
    """Read the wanted number of records, or up to the end. Return the number of records, and the bytes of their keys and values."""
    from levada.cli.records.columns import bytes_in

    read = size = 0
    while read < wanted and len(consumer.finished()) < partitions:
        if columns:
            batch = consumer.poll_arrow(POLL_S, columns=("key", "value"))
            read += batch.num_rows
            size += bytes_in(batch.columns)
        else:
            records = consumer.poll(POLL_S)
            read += len(records)
            size += sum(len(record.key or b"") + len(record.value or b"") for record in records)
        bar.update(read)
    return read, size


def _wait_for(consumer: KafkaConsumer[Any, Any], value: bytes, sent: Delivery) -> None:
    """Wait until the consumer reads the record with this value.

    Raises the error of its delivery if it was not written, and CommandError after ARRIVAL_S.
    """
    deadline_s = time.perf_counter() + ARRIVAL_S
    while time.perf_counter() < deadline_s:
        if any(record.value == value for record in consumer.poll(POLL_S)):
            return
        if sent.done():
            sent.result()
    raise CommandError(f"a record that was written was not read within {ARRIVAL_S:.0f} s", Exit.TIMED_OUT)

"""levada perf: how much a cluster takes and gives, and how long a record is on its way."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from levada.cli.arguments import not_empty
from levada.cli.command import command
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

app = typer.Typer(help="Measure throughput and latency of a cluster.", no_args_is_help=True, add_completion=False)

MOST_SAMPLES = 10_000
ROWS_AT_ONCE = 10_000
POLL_S = 1.0
ARRIVAL_S = 30.0
"""How long perf latency waits for a record to come back."""

Records = Annotated[int, Option("-n", "--records", min=1, help="How many records.")]
Size = Annotated[int, Option("-s", "--size", min=0, help="Bytes of each value.")]
Columns = Annotated[bool, Option("--columns", help="As Arrow columns, instead of one by one.")]
Topic = Annotated[str, Argument(metavar="TOPIC", show_default=False, help="The topic; its records stay there.")]


class Latencies(NamedTuple):
    """Milliseconds that records took: half of them at most p50_ms, 95 of 100 at most p95_ms, and so on."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class Measured(NamedTuple):
    """What was measured. mb: 1,000,000 bytes of keys and values. latency: None where it was not looked at."""

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
    rate: Annotated[float | None, Option("--rate", min=0.001, help="Records per second, at most.")] = None,
    columns: Columns = False,
) -> None:
    """Write records as fast as the cluster takes them, and say how fast, and how long acknowledgements took."""
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
    records: Annotated[int | None, Option("-n", "--records", min=1, help="How many records; default: all there are.")] = None,
    columns: Columns = False,
) -> None:
    """Read records from the start of a topic as fast as they come, and say how fast."""
    with run.consumer(enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        ranges = settled(consumer, [topic], EVERYTHING)
        consumer.assign(ranges, {tp: span.end for tp, span in ranges.items()})
        consumer.seek_to_beginning()
        wanted = records or sum(span.end - span.start for span in ranges.values())
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
    partition: Annotated[int, Option("-p", "--partition", min=0, help="The partition that is written and read.")] = 0,
) -> None:
    """Write records one after another, read each back, and say how long it took from one to the other."""
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
    """Return rates of what was done in so many seconds. size: bytes of keys and values."""
    per_second = 1 / max(seconds, 1e-9)
    return Measured(records, round(seconds, 3), round(records * per_second, 1), round(size / 1e6 * per_second, 3), percentiles(taken_ms))


def percentiles(taken_ms: Sequence[float]) -> Latencies | None:
    """Return how latencies are distributed, None for none. A percentile is one of them: the smallest that so many do not exceed."""
    if not taken_ms:
        return None
    ordered = sorted(taken_ms)
    p50, p95, p99 = (ordered[max(-(-len(ordered) * share // 100) - 1, 0)] for share in (50, 95, 99))
    return Latencies(*(round(ms, 3) for ms in (p50, p95, p99, ordered[-1])))


class _Samples:
    """How long acknowledgements take, of some records: measuring each would slow down what is measured."""

    def __init__(self, records: int) -> None:
        self.taken_ms: list[float] = []
        self._every = max(records // MOST_SAMPLES, 1)

    def callback(self, number: int) -> Any:
        """Return what a record's delivery is told to, None for one that is not looked at."""
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

    rows = constant_rows("value", value, min(ROWS_AT_ONCE, pace.at_once))
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
    """Read so many records, or to the end; return how many, and the bytes of their keys and values."""
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
    """Wait until a record is read. Raises what became of it where it was not written."""
    deadline_s = time.perf_counter() + ARRIVAL_S
    while time.perf_counter() < deadline_s:
        if any(record.value == value for record in consumer.poll(POLL_S)):
            return
        if sent.done():
            sent.result()
    raise CommandError(f"a record that was written did not come back within {ARRIVAL_S:.0f} s", Exit.TIMED_OUT)

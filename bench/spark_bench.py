"""The common part of the Spark benchmark's sections: topics with records, the systems' options, warm-up, checks and targets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader

from engine_bench import Bench, Case, System
from engine_process import Figures, Worker, WorkerFailed
from kafka_cluster import KafkaNode
from spark_session import CPU, RATE, Session, WrongRows, drain, fingerprint

PARTITIONS = 4
WARM_ROWS = 1_000_000
QUICK_ROWS = 1_000_000
FILLED_TOGETHER = 5_000_000
CONNECTOR, TUNED = "connector", "connector, tuned"
ONCE, INLINE = "levada, exactly once", "levada, exactly once, inline"
SOURCE: Mapping[str, Mapping[str, str]] = {
    CONNECTOR: {},
    # These options make it faster. Its defaults are 500 records per poll and 64 KiB of socket buffer.
    TUNED: {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": str(8 << 20), "kafka.receive.buffer.bytes": str(1 << 20)},
}
SINK: Mapping[str, Mapping[str, str]] = {
    CONNECTOR: {},
    TUNED: {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10), "kafka.buffer.memory": str(128 << 20)},
}

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}

Reader = Callable[..., DataFrame]
"""Makes a frame. Keyword arguments are additional options."""


class Topic(NamedTuple):
    """A topic with records, spread evenly over its partitions."""

    name: str
    rows: int

    def offsets(self, rows: int) -> str:
        """Return the offsets after the first `rows` rows, or after all rows if there are fewer, in the form of Spark's options."""
        each = min(rows, self.rows) // PARTITIONS
        return json.dumps({self.name: {str(number): each for number in range(PARTITIONS)}})


class Inline(NamedTuple):
    """A sink whose rows all go through the driver. max_bytes: the option inlineMaxBytes. offsets_per_trigger: how many rows fit."""

    max_bytes: int
    offsets_per_trigger: int


class SparkBench(Bench):
    """A broker, a Spark session, and how often all systems run."""

    def __init__(self, broker: KafkaNode, session: Session, turns: int, inline: Inline, *, quick: bool) -> None:
        super().__init__(broker.address, turns, quick=quick)
        self.broker = broker
        self.session = session
        self.spark = session.spark
        self.inline = inline

    def scaled(self, count: int) -> int:
        """Return a number of rows, fewer than `count` in a quick run."""
        return min(count, QUICK_ROWS) if self.quick else count

    @contextmanager
    def filled(self, kind: int | str, rows: int, codec: str = "none") -> Iterator[Topic]:
        """Yield a topic. kind: the bytes of a value, or json."""
        with self.topic(PARTITIONS) as name:
            for begin in range(0, rows, FILLED_TOGETHER):
                part = min(FILLED_TOGETHER, rows - begin)
                Worker("fill:topic", self.job(name, kind=kind, records=part, partitions=PARTITIONS, codec=codec)).result()
            yield Topic(name, rows)

    def read(self, system: str, topic: Topic, **options: str) -> DataFrame:
        """Return a system's frame of a topic."""
        return self.reader(system, topic, **options).load()

    def reader(self, system: str, topic: Topic, **options: str) -> DataFrameReader:
        """Return a system's reader of a topic, before load()."""
        return self.spark.read.format(_format(system)).options(**self._source(system, topic), **options)

    def pairs(self, system: str, topic: Topic, **options: str) -> DataFrame:
        """Return a system's stream of a topic's keys and values. The connector has no option for fewer columns."""
        asked = {} if system in SOURCE else {"columns": "key,value"}
        if system == INLINE:
            asked |= {"maxOffsetsPerTrigger": str(self.inline.offsets_per_trigger)}
        return self.stream(system, topic, **asked, **options).select("key", "value")

    def stream(self, system: str, topic: Topic, **options: str) -> DataFrame:
        """Return a system's stream of a topic."""
        return self.spark.readStream.format(_format(system)).options(**self._source(system, topic), **options).load()

    def sink(self, system: str, topic: str) -> tuple[str, dict[str, str]]:
        """Return a system's format and options for writing to a topic."""
        own = {
            ONCE: {"delivery": "exactly-once"},
            INLINE: {"delivery": "exactly-once", "inlineMaxBytes": str(self.inline.max_bytes)},
            **SINK,
        }
        return _format(system), {"kafka.bootstrap.servers": self.bootstrap_servers, "topic": topic, **own.get(system, {})}

    def _source(self, system: str, topic: Topic) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": topic.name, **SOURCE.get(system, {})}

    def compare(self, case: SparkCase, topic: Topic, readers: Mapping[str, Reader], *, rows: int | None = None) -> SparkCase:
        """Let readers read a topic in turns and discard the rows, and check that each gets all rows.

        rows: their number if not all of the topic.
        Before its first turn a reader's values of a part of the topic are compared with the other readers'. This is also the warm-up.
        """
        self.run(case, {system: checked(self._drained(case, system, topic, make, rows)) for system, make in readers.items()})
        return case

    def _drained(self, case: SparkCase, system: str, topic: Topic, make: Reader, rows: int | None) -> System:
        expected, warm = topic.rows if rows is None else rows, {"endingOffsets": topic.offsets(WARM_ROWS)} if rows is None else {}

        def run() -> Figures:
            if system not in case.turns:
                case.agree(system, fingerprint(make(**warm)))
                drain(make(**warm))
            frame = make()
            figures = self.session.timed(topic.rows, lambda: drain(frame))
            if (found := self.session.drained_rows()) != expected:
                raise WrongRows(f"{system} has {found} rows instead of {expected}")
            return figures

        return run


class SparkCase(Case):
    """A case whose systems must all have the same result."""

    def __init__(self, section: str, name: str) -> None:
        super().__init__(section, name)
        self._results: dict[str, object] = {}

    def agree(self, system: str, result: object) -> None:
        """Note a system's result. Raises WrongRows if another system has a different one."""
        self._results[system] = result
        if different := {other: found for other, found in self._results.items() if found != result}:
            raise WrongRows(f"{system} comes to {result}, others to {different}")

    def hold_rate(self, system: str, limit: float) -> None:
        """Set a target: at least `limit` times the rate of the connector's better setting."""
        self.hold(system, RATE, self._better(), limit, at_least=True)

    def hold_cpu(self, system: str, limit: float) -> None:
        """Set a target: at most `limit` times the processor time, of all processes, of the connector's better setting."""
        self.hold(system, CPU, self._better(), limit)

    def _better(self) -> str:
        return max((CONNECTOR, TUNED), key=lambda system: self.figure(system, RATE) or 0)


def _format(system: str) -> str:
    return "kafka" if system in SOURCE else "levada"


def checked(run: System) -> System:
    """Return a system whose failure in Spark, or wrong result, ends only this system and not the benchmark."""

    def guarded() -> Figures:
        try:
            return run()
        except (PySparkException, WrongRows) as error:
            raise WorkerFailed(f"{type(error).__name__}: {str(error)[:2000]}") from error

    return guarded

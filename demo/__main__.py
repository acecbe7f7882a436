"""Flights through Kafka and Spark and back, every value verified.

    make demo                          on the broker that comes with levada
    BOOTSTRAP=host:9092 make demo      on your own Kafka
    DEMO_RECORDS=20000000 make demo    more flights
    COMPARE=1 make demo                the same jobs through Spark's own connector as well
    KILL=1 make demo                   with the driver of the arrivals killed in mid-batch, twice

The demo produces the flights that left New York in 2013 as Arrow columns to a topic, repeated with later dates until there are three
million. Two Spark streams read the topic. One writes a record for each flight that arrived. The other joins carriers and weather, and
writes the delays of each carrier and day. Both results are read back and compared, value by value, with a plain pyarrow computation. The
exit code is 1 if any value differs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
from broker import BrokerProcess, Kafka, OtherKafka
from chart import draw, draw_small
from console import Console
from data import airlines, expected_arrivals, expected_delays, flights_of_2013, last_year, to_json, weather, years
from figures import Run, batches, table, title
from jobs import CONNECTOR, LEVADA, PARTITIONS, Job, closing, jobs
from killing import KilledDriver, aborted_rows
from pyspark.sql import SparkSession
from session import CtrlC, spark_session
from settings import Settings, settings
from stream import Stream
from verify import ARRIVALS, DELAYS, Comparison, ReadBack, compare, read_back, summary

import levada as lv

OUT = Path(__file__).parent / "out"
JOBS = {"arrivals": (ARRIVALS, expected_arrivals), "delays": (DELAYS, expected_delays)}
"""The result of each job, and the function that computes it without Kafka and Spark."""


def main() -> int:
    """Run the demo, and return the exit code."""
    wanted, show = settings(os.environ), Console()
    jars = connector_jars(show) if wanted.is_compared else []
    systems = [LEVADA, CONNECTOR] if jars else [LEVADA]
    with kafka(wanted, show) as broker:
        demo = Demo(broker, create_topics(broker, systems, show), wanted.records, show)
        year = load(show)
        demo.produce(year)
        killed = [demo.stream_and_kill()] if wanted.is_killed else []
        runs = killed + demo.stream(systems, jars, [run.title for run in killed])
        found = [demo.read_back(run) for run in runs]
        aborted = [demo.count_aborted(run) for run in killed]
    comparisons = verify(year, wanted.records, runs, found, show)
    delays = next(back.rows for run, back in zip(runs, found, strict=True) if (run.job, run.system) == ("delays", LEVADA))
    show.table(*summary(delays))
    show.table(*table(runs))
    if jars:
        show.say("Java compiles a job's code while it first runs: levada goes first with the arrivals, the connector with the delays.")
    with show.stage("Draw the year") as stage:
        draw_small(delays, OUT / "delays.svg")
        stage.done(os.path.relpath(draw(delays, runs, OUT / "delays.png")))
    for run, rows in zip(killed, aborted, strict=True):
        show.say(f"{run.title}: the killed drivers left {rows:,} rows in Kafka, aborted; without transactions these would be duplicates")
    return conclude(comparisons, show)


class Topics(NamedTuple):
    """The names of the topics. source: the topic of flights. suffix: the end of all names, if topics with the plain names exist already."""

    source: str
    suffix: str = ""

    def target(self, job: str, system: str) -> str:
        """Return the topic that a job writes to. system: "levada" or "connector"."""
        return f"{job}-{system}{self.suffix}"


@dataclass(frozen=True)
class Demo:
    """The stages that need Kafka."""

    broker: Kafka
    topics: Topics
    records: int
    show: Console

    def produce(self, year: pa.Table) -> None:
        """Send the flights as JSON with the carrier as key: one Arrow table for each year, without a loop over records."""
        topic = self.topics.source
        with self.show.stage("Produce flights") as stage, self._producer() as producer:
            began, size_bytes, deliveries = time.perf_counter(), 0, []
            for part in years(year, self.records):
                values = to_json(part)
                deliveries.append(producer.send_arrow(topic, pa.table({"key": part["carrier"], "value": values}), key="key", value="value"))
                size_bytes += values.nbytes
                sent = part["id"][-1].as_py() + 1
                stage.progress(sent / self.records, f"{sent:,} flights")
            for delivery in deliveries:
                delivery.result(timeout=120)
            stage.done(f"{rate(self.records, time.perf_counter() - began)}, {size_bytes / 1e6:,.0f} MB of JSON")
            producer.send(topic, value=closing(last_year(year, self.records))).result(timeout=30)

    def stream_and_kill(self) -> Run:
        """Run the job "arrivals" through levada in a separate driver, which is killed and started again."""
        job, system = "arrivals", LEVADA
        target = self.topics.target(job, system)
        with self.show.stage(f"Stream {title(job, system)}") as stage, TemporaryDirectory(prefix="levada-demo-") as folder:
            began = time.perf_counter()
            asked = {"servers": self.broker.bootstrap_servers, "source": self.topics.source, "target": target, "folder": folder}
            driver = KilledDriver(asked)
            for done in driver.until_done():
                stage.progress(done / self.records, f"{done:,} flights, driver killed {driver.kills} times")
            run = Run(job, system, time.perf_counter() - began, batches(driver.reports), self.broker.memory_bytes())
            stage.done(f"{rate(run.records, run.seconds)}, driver killed with -9 in mid-batch {driver.kills} times")
        return run

    def stream(self, systems: Sequence[str], jars: Sequence[Path], done: Sequence[str] = ()) -> list[Run]:
        """Run every job through every system, one after another. done: titles of runs to skip, because they were done before."""
        ctrl_c = CtrlC()
        with self.show.stage("Start Spark") as stage:
            spark = spark_session(OUT / "spark.log", ctrl_c, jars)
            stage.done(f"PySpark {spark.version}, log in {os.path.relpath(OUT / 'spark.log')}")
        try:
            turns = in_turns(jobs(spark, airlines(), weather()), systems)
            return [self._run(spark, ctrl_c, job, system) for job, system in turns if title(job.name, system) not in done]
        finally:
            spark.stop()
            ctrl_c.release()

    def read_back(self, run: Run) -> ReadBack:
        """Read the results of a run, and keep the last row of each key."""
        topic = self.topics.target(run.job, run.system)
        with self.show.stage(f"Read {run.title}") as stage:
            began = time.perf_counter()
            written, _ = JOBS[run.job]
            found = read_back(self.broker.bootstrap_servers, topic, written)
            stage.done(f"{rate(found.records, time.perf_counter() - began)}: {found.rows.num_rows:,} {written.rows}")
        return found

    def count_aborted(self, run: Run) -> int:
        """Count the rows in a run's topic that killed drivers wrote and that were aborted."""
        return aborted_rows(self.broker.bootstrap_servers, self.topics.target(run.job, run.system))

    def _run(self, spark: SparkSession, ctrl_c: CtrlC, job: Job, system: str) -> Run:
        target = self.topics.target(job.name, system)
        with self.show.stage(f"Stream {title(job.name, system)}") as stage:
            began = time.perf_counter()
            with Stream(spark, ctrl_c, job, system, self.broker.bootstrap_servers, self.topics.source, target) as stream:
                for done in stream.until_done():
                    stage.progress(done / self.records, f"{done:,} flights" if done else "Spark warms up")
                run = Run(job.name, system, time.perf_counter() - began, stream.batches(), self.broker.memory_bytes())
            stage.done(rate(run.records, run.seconds))
        return run

    def _producer(self) -> lv.KafkaProducer:
        return lv.KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, compression_type="zstd", batch_size=256 << 10)


def connector_jars(show: Console) -> list[Path]:
    """Return the jars of Spark's own connector; none if Maven cannot fetch them."""
    from kafka_jars import KafkaUnavailable, spark_connector

    with show.stage("Fetch the connector") as stage:
        try:
            jars = spark_connector()
        except KafkaUnavailable as why:
            stage.done(f"not compared: {why}")
            return []
        stage.done(f"{len(jars)} jars")
        return jars


@contextmanager
def kafka(wanted: Settings, show: Console) -> Iterator[Kafka]:
    """Yield the user's Kafka, or an embedded broker that runs until the demo ends."""
    if wanted.servers:
        show.say(f"Kafka at {wanted.servers}")
        yield OtherKafka(wanted.servers)
        return
    with BrokerProcess() as broker:
        show.say(f"Embedded broker at {broker.bootstrap_servers}")
        yield broker


def create_topics(broker: Kafka, systems: Sequence[str], show: Console) -> Topics:
    """Create the topics. If one of them exists already, add the time to all names."""
    with lv.KafkaAdmin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=15_000) as admin:
        topics = Topics("flights")
        if set(admin.list_topics()) & set(_names(topics, systems)):
            suffix = f"-{time.strftime('%Y%m%d-%H%M%S')}"
            topics = Topics(f"flights{suffix}", suffix)
        names = _names(topics, systems)
        admin.create_topics([lv.NewTopic(name, partitions=PARTITIONS) for name in names])
    show.say(f"Topics {', '.join(names)}, {PARTITIONS} partitions each")
    return topics


def _names(topics: Topics, systems: Sequence[str]) -> list[str]:
    return [topics.source, *(topics.target(job, system) for job in JOBS for system in systems)]


def load(show: Console) -> pa.Table:
    """Read the flights of a year, in the order of their scheduled departure."""
    with show.stage("Load flights") as stage:
        year = flights_of_2013()
        stage.done(f"{year.num_rows:,} flights of 2013")
    return year


def verify(year: pa.Table, records: int, runs: Sequence[Run], found: Sequence[ReadBack], show: Console) -> list[Comparison]:
    """Compare the results of every run with those that pyarrow computes."""
    with show.stage("Compare with pyarrow") as stage:
        expected = {job: compute(year, records) for job, (_, compute) in JOBS.items()}
        comparisons = [compare(run.title, JOBS[run.job][0], expected[run.job], back) for run, back in zip(runs, found, strict=True)]
        stage.done(f"{sum(comparison.values for comparison in comparisons):,} values")
    return comparisons


def conclude(comparisons: Sequence[Comparison], show: Console) -> int:
    """Print the outcome, and return the exit code."""
    for comparison in comparisons:
        for example in comparison.examples:
            show.say(f"  differs: {example}")
        show.verdict(comparison.equal, comparison.sentence)
    return 0 if all(comparison.equal for comparison in comparisons) else 1


def in_turns(jobs: Sequence[Job], systems: Sequence[str]) -> Iterator[tuple[Job, str]]:
    """Yield every job with every system. They take turns in going first, because Java compiles most of a job's code in its first run."""
    for number, job in enumerate(jobs):
        yield from ((job, system) for system in (systems if number % 2 == 0 else reversed(systems)))


def rate(rows: int, seconds: float) -> str:
    """Return the number of records and their rate as text."""
    return f"{rows:,} records, {rows / seconds:,.0f}/s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except lv.errors.KafkaError as trouble:
        sys.exit(f"{type(trouble).__name__}: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)

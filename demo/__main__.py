"""Flights through Kafka and Spark and back, every figure verified.

    make demo                          on the broker that comes with levada
    BOOTSTRAP=host:9092 make demo      on your own Kafka

The 336,776 flights that left New York in 2013 are produced as Arrow columns to a topic. A Spark stream reads it, joins carriers and
weather, adds up delays per carrier and day, and writes the result to a second topic. That one is read back and compared, figure by figure,
with a plain pyarrow computation. Exits with 1 if one figure differs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from chart import draw
from console import Console
from data import airlines, expected_delays, flights, to_json, weather
from pipeline import CtrlC, Stream, spark_session
from verify import compare, read_back, summary

import levada as lv
from levada.testing import EmbeddedKafka

OUT = Path(__file__).parent / "out"


def main() -> int:
    """Run the demo; return the exit code."""
    show = Console()
    with kafka(show) as servers:
        source, target = create_topics(servers, show)
        table = load(show)
        produce(servers, source, table, show)
        stream_delays(servers, source, target, table.num_rows, show)
        delays = collect(servers, target, show)
        return conclude(table, delays, show)


@contextmanager
def kafka(show: Console) -> Iterator[str]:
    """Yield the bootstrap servers of your Kafka, or of one that lives as long as the demo."""
    if servers := os.environ.get("BOOTSTRAP"):
        show.say(f"Kafka at {servers}")
        yield servers
        return
    with EmbeddedKafka() as embedded:
        show.say(f"Embedded broker at {embedded.bootstrap_servers}")
        yield embedded.bootstrap_servers


def create_topics(servers: str, show: Console) -> tuple[str, str]:
    """Create the two topics, under names of their own where 'flights' or 'delays' exists already."""
    with lv.KafkaAdmin(bootstrap_servers=servers, default_api_timeout_ms=15_000) as admin:
        taken = {"flights", "delays"} & set(admin.list_topics())
        suffix = f"-{time.strftime('%Y%m%d-%H%M%S')}" if taken else ""
        source, target = f"flights{suffix}", f"delays{suffix}"
        admin.create_topics([lv.NewTopic(source, partitions=4), lv.NewTopic(target, partitions=2)])
    show.say(f"Topics {source} (4 partitions) and {target} (2 partitions)")
    return source, target


def load(show: Console) -> pa.Table:
    """Read the flights, in the order in which they were to depart."""
    with show.stage("Load flights") as stage:
        table = flights()
        stage.done(f"{table.num_rows:,} flights")
    return table


def produce(servers: str, topic: str, table: pa.Table, show: Console) -> None:
    """Send the flights as JSON, keyed by carrier: whole columns, no loop over records."""
    with show.stage(f"Produce to {topic}") as stage:
        records = pa.table({"key": table["carrier"], "value": to_json(table)})
        began = time.perf_counter()
        with lv.KafkaProducer(bootstrap_servers=servers, compression_type="zstd", batch_size=256 << 10) as producer:
            producer.send_arrow(topic, records, key="key", value="value").result(timeout=120)
        stage.done(rate(records.num_rows, time.perf_counter() - began, records.nbytes))


def stream_delays(servers: str, source: str, target: str, rows: int, show: Console) -> None:
    """Let Spark read one topic and write the other."""
    ctrl_c = CtrlC()
    with show.stage("Start Spark") as stage:
        spark = spark_session(OUT / "spark.log", ctrl_c)
        stage.done(f"PySpark {spark.version}, log in {os.path.relpath(OUT / 'spark.log')}")
    try:
        with (
            show.stage("Stream through Spark") as stage,
            Stream(spark, ctrl_c, servers, source, target, airlines(), weather()) as stream,
        ):
            began = time.perf_counter()
            for done in stream.until_caught_up():
                stage.progress(done / rows, f"{done:,} flights" if done else "Spark warms up")
            seconds = time.perf_counter() - began
            stream.close_last_days()
            stage.done(f"{rate(rows, seconds)}, warm {stream.warm_rate:,.0f}/s")
            if stream.dropped:
                show.say(f"  {stream.dropped} records came after their day was written")
    finally:
        spark.stop()
        ctrl_c.release()


def collect(servers: str, topic: str, show: Console) -> pa.Table:
    """Read the result back and keep the last value of each key."""
    with show.stage(f"Read {topic} back") as stage:
        began = time.perf_counter()
        delays, records = read_back(servers, topic)
        stage.done(f"{rate(records, time.perf_counter() - began)}: {delays.num_rows:,} groups")
    return delays


def conclude(table: pa.Table, delays: pa.Table, show: Console) -> int:
    """Compare, draw, and say how it went."""
    with show.stage("Compute it with pyarrow") as stage:
        expected = expected_delays(table)
        stage.done(f"{expected.num_rows:,} groups of carrier and day")
    with show.stage("Draw the year") as stage:
        stage.done(os.path.relpath(draw(delays, OUT / "delays.png")))
    show.table(*summary(delays))
    result = compare(expected, delays)
    for difference in result.differences[:10]:
        show.say(f"  differs: {difference}")
    show.verdict(result.equal, result.sentence)
    return 0 if result.equal else 1


def rate(rows: int, seconds: float, size_bytes: int = 0) -> str:
    """Say how many, how fast."""
    data = f" ({size_bytes / seconds / 1e6:,.0f} MB/s)" if size_bytes else ""
    return f"{rows:,} records, {rows / seconds:,.0f}/s{data}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except lv.errors.KafkaError as trouble:
        sys.exit(f"{type(trouble).__name__}: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)

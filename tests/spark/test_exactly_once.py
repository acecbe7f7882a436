"""delivery=exactly-once in a real Spark: whatever dies, readers of committed records see each row once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

import levada as lv
import spark_strikes
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def kafka() -> Iterator[Any]:
    """A broker that nobody else writes to."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("source", 2)
        kafka.create_topic("target", 3)
        yield kafka


@pytest.fixture
def strikes(spark: Any, tmp_path: Path) -> Path:
    cloudpickle.register_pickle_by_value(spark_strikes)  # type: ignore[no-untyped-call]
    spark.dataSource.register(spark_strikes.StruckDataSource)
    folder = tmp_path / "strikes"
    folder.mkdir()
    return folder


class Copy:
    """A query from topic to topic that is started again whenever it has failed."""

    def __init__(self, spark: Any, kafka: Any, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._kafka = kafka
        self._checkpoint = checkpoint
        self._options = options
        self._query: Any = None
        self._produced = 0
        self.failures: list[str] = []

    def produce(self, count: int) -> None:
        with lv.KafkaProducer(bootstrap_servers=self._kafka.bootstrap_servers) as producer:
            for _ in range(count):
                producer.send("source", b"%d" % self._produced, partition=self._produced % 2)
                self._produced += 1

    def run(self) -> None:
        """Process what is there, however often it takes."""
        while True:
            query = self._query = self._query if self._query is not None and self._query.isActive else self._start()
            try:
                query.processAllAvailable()
            except StreamingQueryException as failure:
                self.failures.append(str(failure))
                assert len(self.failures) < 100, self.failures[-1]
            else:
                return

    def _start(self) -> Any:
        servers = {"kafka.bootstrap.servers": self._kafka.bootstrap_servers}
        source = self._spark.readStream.format("levada").options(**servers, subscribe="source", startingOffsets="earliest").load()
        writer = source.select("value").writeStream.options(**servers, topic="target", checkpointLocation=str(self._checkpoint))
        return writer.format(spark_strikes.NAME if "strikes" in self._options else "levada").options(**self._options).start()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def check(self, where: str) -> None:
        """Each row is there once."""
        assert self.written() == Counter(range(self._produced)), where

    def written(self) -> Counter[int]:
        records = lv.scan("target", bootstrap_servers=self._kafka.bootstrap_servers, isolation_level="read_committed")
        return Counter(int(record.value or b"") for record in records)


def is_settled(kafka: Any) -> bool:
    """Whether no open transaction holds readers of committed records back."""
    ends = []
    for level in ("read_committed", "read_uncommitted"):
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level=level) as consumer:
            ends.append(consumer.end_offsets([TopicPartition("target", number) for number in range(3)]))
    return ends[0] == ends[1]


FEW = ("after-write", "before-initialize", "before-decide", "after-decide", "after-commit")


@pytest.mark.parametrize("steps", [FEW, pytest.param(spark_strikes.ALL, marks=pytest.mark.matrix)], ids=["few", "all"])
def test_each_step_may_die(spark: Any, kafka: Any, strikes: Path, tmp_path: Path, steps: Sequence[str]) -> None:
    copy = Copy(spark, kafka, tmp_path / "checkpoint", delivery="exactly-once", strikes=str(strikes))
    try:
        for step in steps:
            for how in ("exit", "raise") if steps is not FEW else ("exit",):
                copy.produce(7)
                planned = [strikes / f"{step}.{how}"]
                if step.endswith("-initialize"):
                    # Only a new process initializes.
                    planned.append(strikes / "before-commit.exit")
                for strike in planned:
                    strike.touch()
                copy.run()
                assert not any(strike.exists() for strike in planned), f"nothing came to {step}"
                copy.check(f"{step}.{how}")
    finally:
        copy.stop()
    assert is_settled(kafka)
    assert len(copy.failures) >= len(steps)


def test_at_least_once_the_same_strikes_double_rows(spark: Any, kafka: Any, strikes: Path, tmp_path: Path) -> None:
    copy = Copy(spark, kafka, tmp_path / "checkpoint", delivery="at-least-once", strikes=str(strikes))
    try:
        copy.produce(7)
        (strikes / "after-commit.exit").touch()
        copy.run()
    finally:
        copy.stop()
    written = copy.written()
    assert written.keys() == set(range(7)), "nothing is lost"
    assert max(written.values()) > 1, "and the strikes meet what they are meant to meet"

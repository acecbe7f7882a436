"""delivery=exactly-once in a real Spark: whatever dies, readers of committed records see each row once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

import levada as lv
import spark_strikes
from levada.types import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 3


@pytest.fixture
def strikes(spark: Any, tmp_path: Path) -> Path:
    cloudpickle.register_pickle_by_value(spark_strikes)  # type: ignore[no-untyped-call]
    spark.dataSource.register(spark_strikes.StruckDataSource)
    folder = tmp_path / "strikes"
    folder.mkdir()
    return folder


class Copy:
    """A query from topic to topic that is started again whenever it has failed."""

    def __init__(self, spark: Any, kafka: Any, source: str, target: str, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._kafka = kafka
        self._source = source
        self._target = target
        self._checkpoint = checkpoint
        self._options = options
        self._query: Any = None
        self._produced = 0
        self._failed_in_a_row = 0
        self.failures: list[str] = []

    def produce(self, count: int) -> None:
        with lv.KafkaProducer(bootstrap_servers=self._kafka.bootstrap_servers) as producer:
            for _ in range(count):
                producer.send(self._source, b"%d" % self._produced, partition=self._produced % 2)
                self._produced += 1

    def run(self) -> None:
        """Process what is there, however often it takes."""
        while True:
            query = self._query = self._query if self._query is not None and self._query.isActive else self._start()
            try:
                query.processAllAvailable()
            except StreamingQueryException as failure:
                self.failures.append(str(failure))
                self._failed_in_a_row += 1
                assert self._failed_in_a_row < 9, self.failures[-1]
            else:
                self._failed_in_a_row = 0
                return

    def _start(self) -> Any:
        servers = {"kafka.bootstrap.servers": self._kafka.bootstrap_servers}
        source = self._spark.readStream.format("levada").options(**servers, subscribe=self._source, startingOffsets="earliest").load()
        writer = source.select("value").writeStream.options(**servers, topic=self._target, checkpointLocation=str(self._checkpoint))
        return writer.format(spark_strikes.NAME if "strikes" in self._options else "levada").options(**self._options).start()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def check(self, where: str) -> None:
        """Each row is there once."""
        assert self.written() == Counter(range(self._produced)), where

    def written(self) -> Counter[int]:
        records = lv.scan(self._target, bootstrap_servers=self._kafka.bootstrap_servers, isolation_level="read_committed")
        return Counter(int(record.value or b"") for record in records)

    def check_with_confluent_kafka(self) -> None:
        """Each row is there once for a reader that shares no code with levada, and no open transaction holds it back."""
        settings = {"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": self._target, "isolation.level": "read_committed"}
        reader = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
        found: Counter[int] = Counter()
        try:
            for partition in range(PARTITIONS):
                _, end = reader.get_watermark_offsets(confluent_kafka.TopicPartition(self._target, partition), timeout=30)
                reader.assign([confluent_kafka.TopicPartition(self._target, partition, 0)])
                while reader.position(reader.assignment())[0].offset < end:
                    found.update(int(message.value() or b"") for message in reader.consume(1000, timeout=0.5))
        finally:
            reader.close()
        assert found == Counter(range(self._produced))

    def is_settled(self) -> bool:
        """Whether no open transaction holds readers of committed records back."""
        ends = []
        for level in ("read_committed", "read_uncommitted"):
            with lv.KafkaConsumer(bootstrap_servers=self._kafka.bootstrap_servers, isolation_level=level) as consumer:
                ends.append(consumer.end_offsets([TopicPartition(self._target, number) for number in range(PARTITIONS)]))
        return ends[0] == ends[1]

    def run_into(self, folder: Path, step: str, how: str) -> None:
        """Process some more records, and be struck on the way."""
        self.produce(7)
        planned = [folder / f"{step}.{how}"]
        for strike in planned:
            strike.touch()
        self.run()
        assert not any(strike.exists() for strike in planned), f"nothing came to {step}"


FEW_WITH_SLOTS = ("after-hand-over", "before-decide", "before-end-slots", "after-commit")
FEW = ("after-write", "before-initialize", "after-decide", "after-commit")


@pytest.fixture
def copy_of(spark: Any, new_topic: Any, tmp_path: Path) -> Iterator[Callable[..., Copy]]:
    """Make a query: copy_of(kafka, **options)."""
    made: list[Copy] = []

    def make(kafka: Any, **options: Any) -> Copy:
        made.append(Copy(spark, kafka, new_topic(kafka, 2), new_topic(kafka, PARTITIONS), tmp_path / "checkpoint", **options))
        return made[-1]

    yield make
    for copy in made:
        copy.stop()


def test_a_process_may_die_at_each_step(embedded: Any, copy_of: Any, strikes: Path) -> None:
    copy = copy_of(embedded, delivery="exactly-once", strikes=str(strikes))
    for step in FEW:
        copy.run_into(strikes, step, "exit")
        copy.check(step)
    assert copy.is_settled()
    assert len(copy.failures) >= len(FEW)


def test_a_process_may_die_at_each_step_of_a_batch_with_slots(embedded: Any, copy_of: Any, strikes: Path) -> None:
    copy = copy_of(embedded, delivery="exactly-once", strikes=str(strikes), inlineMaxBytes=1)
    for step in FEW_WITH_SLOTS:
        copy.run_into(strikes, step, "exit")
        copy.check(step)
    copy.produce(2)
    copy.run()
    copy.check("the end")
    assert copy.is_settled()
    assert len(copy.failures) >= len(FEW_WITH_SLOTS)


@pytest.mark.matrix
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("steps", "inline_max_bytes"),
    [(spark_strikes.ALL, 16 << 20), (spark_strikes.ALL_WITH_SLOTS, 1)],
    ids=["inline", "slots"],
)
def test_processes_die_at_every_step_again_and_again(
    any_kafka: Any, copy_of: Any, strikes: Path, note: Any, steps: list[str], inline_max_bytes: int
) -> None:
    """LEVADA_STRIKE_ROUNDS: how often (1); a round takes some four minutes."""
    copy, count = copy_of(any_kafka, delivery="exactly-once", strikes=str(strikes), inlineMaxBytes=inline_max_bytes), 0
    for _ in range(int(os.environ.get("LEVADA_STRIKE_ROUNDS", "1"))):
        for step in steps:
            for how in ("exit", "raise"):
                copy.run_into(strikes, step, how)
                copy.check(f"{step}.{how}")
                count += 1
    copy.produce(2)
    copy.run()
    copy.stop()
    assert copy.is_settled()
    copy.check_with_confluent_kafka()
    note(f"exactly once on Spark: {count} strikes, {len(copy.failures)} runs ended by them, no row lost or doubled")


def test_at_least_once_the_same_strikes_double_rows(embedded: Any, copy_of: Any, strikes: Path) -> None:
    copy = copy_of(embedded, delivery="at-least-once", strikes=str(strikes))
    copy.run_into(strikes, "after-commit", "exit")
    written = copy.written()
    assert written.keys() == set(range(7)), "nothing is lost"
    assert max(written.values()) > 1, "and the strikes meet what they are meant to meet"

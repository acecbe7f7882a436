"""format("levada") beside Spark's own format("kafka"), with the same options on the same real broker: the same rows, or the same error."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import levada as lv
from spark_beside import assert_same, batch_options, of_both, rows
from spark_topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEEDS = range(int(os.environ.get("LEVADA_SPARK_SEEDS", "10")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_query_has_the_rows_of_the_connector(connector: Any, topics: Topics, seed: int) -> None:
    given = batch_options(Random(seed), topics)
    assert_same(of_both(lambda source: rows(connector, source, given)), given)


# Checkpoints


def stream(spark: Any, source: str, servers: str, topic: str, **given: str) -> Any:
    return spark.readStream.format(source).options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, **given}).load()


def run_once(spark: Any, source: str, servers: str, topic: str, checkpoint: Path, **given: str) -> list[str]:
    """Run a stream with trigger availableNow, from its checkpoint on. Returns the values that it read, sorted."""
    seen: list[str] = []
    rows = stream(spark, source, servers, topic, **given).selectExpr("cast(value as string) value")
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: seen.extend(row.value for row in batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(60)
    finally:
        query.stop()
    return sorted(seen)


@pytest.fixture
def written(kafka44: Any, new_topic: Any) -> Iterator[Callable[[int, int], list[str]]]:
    """Write records first to last, and return their values."""
    topic = new_topic(kafka44, partitions=2)
    with lv.KafkaProducer(bootstrap_servers=kafka44.bootstrap_servers) as producer:

        def write(first: int, last: int) -> list[str]:
            for number in range(first, last):
                producer.send(topic, f"{number:03}", partition=number % 2)
            producer.flush()
            return [f"{number:03}" for number in range(first, last)]

        write.topic = topic  # type: ignore[attr-defined]
        yield write


def test_a_query_changes_from_the_connector_to_levada_and_back(connector: Any, kafka44: Any, written: Any, tmp_path: Path) -> None:
    servers, topic = kafka44.bootstrap_servers, written.topic
    for number, source in enumerate(["kafka", "levada", "levada", "kafka", "levada"]):
        expected = written(number * 10, number * 10 + 10)
        assert run_once(connector, source, servers, topic, tmp_path, startingOffsets="earliest") == expected, source
    # The same JSON; PySpark writes a space behind each comma and colon.
    offsets = [json.loads((tmp_path / "offsets" / str(number)).read_text().splitlines()[-1]) for number in range(5)]
    assert offsets == [{topic: {"0": end, "1": end}} for end in (5, 10, 15, 20, 25)]


def test_a_first_batch_of_the_connector_that_did_not_finish_is_not_lost_silently(
    connector: Any, kafka44: Any, written: Any, tmp_path: Path
) -> None:
    servers, topic = kafka44.bootstrap_servers, written.topic
    written(0, 4)

    def fails(*_: Any) -> None:
        raise RuntimeError("in the middle of batch 0")

    query = stream(connector, "kafka", servers, topic).writeStream.foreachBatch(fails).option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="in the middle of batch 0"):
        # The query begins at the latest offset, and has its first batch with what comes then.
        deadline = time.monotonic() + 60
        while query.isActive and time.monotonic() < deadline:
            written(4, 6)
            query.awaitTermination(1)
        query.awaitTermination(1)
    with pytest.raises(Exception, match="the first micro-batch was planned by another source, whose start is not known"):
        run_once(connector, "levada", servers, topic, tmp_path)

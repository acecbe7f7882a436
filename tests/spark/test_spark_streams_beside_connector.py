"""Streams of format("levada") beside those of Spark's own format("kafka"), over topics that change between two runs.

Both have the same rows in the same micro-batches, and the same offsets in their checkpoints, or the same kind of error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark_beside import BOTH, Refused, assert_same, of_both
from spark_topics import FIRST_MS, Topics, add_partitions

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(400)]

SEEDS = range(int(os.environ.get("LEVADA_SPARK_SEEDS", "40")) // 10)
PATIENCE_S = 150
FIRST, THEN = range(40), range(40, 70)


def new_partition(topics: Topics, topic: str) -> None:
    add_partitions(topics.servers, topic, 3)
    topics.write(topic, 3, THEN)


def new_partition_without_its_beginning(topics: Topics, topic: str) -> None:
    new_partition(topics, topic)
    topics.pass_retention(topic, 3, 3)


def retention_passed(topics: Topics, topic: str) -> None:
    topics.write(topic, 2, THEN)
    topics.pass_retention(topic, 2, 25)


def created_again(topics: Topics, topic: str) -> None:
    topics.create_again(topic, 2)
    topics.write(topic, 2, range(10))


CHANGES: Mapping[str, Callable[[Topics, str], None]] = {
    "nothing": lambda topics, topic: None,
    "more records": lambda topics, topic: topics.write(topic, 2, THEN),
    "transactions": lambda topics, topic: topics.write_transactions(topic, 2, 6),
    "new partition": new_partition,
    "new partition without its beginning": new_partition_without_its_beginning,
    "retention passed": retention_passed,
    "created again": created_again,
    "deleted": lambda topics, topic: topics.delete(topic),
}


def stream_options(random: Random, topic: str) -> dict[str, str]:
    """Options of a stream over a topic of two partitions."""
    each = json.dumps({topic: {"0": random.choice([-2, -1, 3]), "1": random.choice([-2, 0, 12])}})
    starting = [
        {"startingOffsets": "earliest"},
        {"startingOffsets": "earliest"},
        {"startingOffsets": "latest"},
        {"startingOffsets": each},
        {"startingTimestamp": str(FIRST_MS + random.randint(0, 50_000))},
    ]
    optional = {
        "maxOffsetsPerTrigger": str(random.randint(5, 30)),
        "minPartitions": str(random.randint(1, 5)),
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
    }
    return {
        "subscribe": topic,
        "kafkaConsumer.pollTimeoutMs": "1000",
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "100",
        **random.choice(starting),
        **{name: value for name, value in optional.items() if random.random() < 0.5},
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_has_the_micro_batches_of_the_connector(connector: Any, topics: Topics, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    change = list(CHANGES)[seed % len(CHANGES)]
    topic = topics.fresh(2)
    topics.write(topic, 2, FIRST)
    trigger = random.choice(["availableNow", "availableNow", "once"])
    given = {"kafka.bootstrap.servers": topics.servers, **stream_options(random, topic)}
    told = {**given, "trigger": trigger, "change": change}

    def run(source: str) -> list[Any]:
        return micro_batches(connector, source, given, trigger, tmp_path / source)

    first = of_both(run)
    assert_same(first, told)
    if any(isinstance(found, Refused) for found in first.values()):
        return
    CHANGES[change](topics, topic)
    then = of_both(run)
    if change == "deleted":
        assert_a_topic_is_gone(then, told)
        return
    assert_same(then, told)
    if any(isinstance(found, Refused) for found in then.values()):
        return
    if change == "created again":
        # The connector never reads what is in the new log already; levada's next trigger does.
        assert [[row[:2] for row in batch] for batch in run("levada")] == [[(number, offset) for number in (0, 1) for offset in range(5)]]
        return
    reached = {source: planned(tmp_path / source) for source in BOTH}
    assert reached["levada"] == reached["kafka"], told


def assert_a_topic_is_gone(found: Mapping[str, Any], told: Mapping[str, str]) -> None:
    """The connector always fails, and speaks of an unknown topic. For levada it is data loss, which may be allowed."""
    assert isinstance(found["kafka"], Refused), told
    assert found["kafka"].kind in ("no such topic", "data loss"), told
    if told.get("failOnDataLoss") == "false":
        assert found["levada"] == [], told
    else:
        assert isinstance(found["levada"], Refused), told
        assert found["levada"].kind == "data loss", told


def micro_batches(spark: Any, source: str, given: Mapping[str, str], trigger: str, checkpoint: Path) -> list[Any]:
    """Run a stream with availableNow or once, from its checkpoint on. Returns the rows of each micro-batch that is not empty."""
    seen: list[Any] = []

    def collect(batch: Any, _: int) -> None:
        if rows := batch.collect():
            seen.append(sorted((row.partition, row.offset, *row) for row in rows))

    writer = spark.readStream.format(source).options(**given).load().writeStream.foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(**{trigger: True}).start()
    try:
        assert query.awaitTermination(PATIENCE_S), "it did not come to its end"
    finally:
        query.stop()
    return seen


def planned(checkpoint: Path) -> list[Any]:
    """Return the end offsets of a checkpoint's micro-batches. A first micro-batch without records is left out."""
    logs = sorted((path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[-1]) for path in logs]
    start = ends[0].pop("$start", None) or json.loads((checkpoint / "sources" / "0" / "0").read_text().splitlines()[-1])
    for end in ends:
        # levada stores the start of a new partition here. The connector does not store it.
        end.pop("$start", None)
    return ends[1:] if ends[0] == start else ends

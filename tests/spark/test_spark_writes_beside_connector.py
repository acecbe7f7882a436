"""Rows written by format("levada") and Spark's own format("kafka"): the same records for Java's consumer, or the same kind of error."""

from __future__ import annotations

import os
from random import Random
from typing import Any, TypeAlias

import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from java_clients import Asked, Record, read
from spark_beside import BOTH, Outcome, assert_same, outcome
from spark_topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEEDS = range(int(os.environ.get("LEVADA_SPARK_SEEDS", "30")) // 10)
ROWS = 60
PARTITIONS = 3
TEXT, BYTES, NUMBER, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADERS = ArrayType(StructType([StructField("key", TEXT), StructField("value", BYTES)]))

Columns: TypeAlias = dict[str, tuple[DataType, list[Any]]]
"""The type and the values of each column, by name."""


def columns(random: Random, targets: list[str]) -> Columns:
    """Columns of records, and one that is of none; some have to be refused."""

    def some(*values: Any) -> list[Any]:
        return [random.choice(values) for _ in range(ROWS)]

    text = random.random() < 0.5
    kind = TEXT if text else BYTES
    keys = some("a", "bé", "", None) if text else some(b"a", b"\x00\xff", b"", None)
    given: Columns = {
        "value": (kind, some("v", "größe", "", None) if text else some(b"v", b"\x00\xff", b"", None)),
        "key": (kind, keys),
        "headers": (HEADERS, some(None, [], [("h", b"\x01"), ("h", None)], [("", b"")])),
        # A row without key and partition goes wherever its producer likes at the moment.
        "partition": (NUMBER, [random.choice([0, 1, 2] if key is None else [0, 1, None]) for key in keys]),
        "topic": (TEXT, some(*targets)),
        "other": (LONG, some(1, 2)),
    }
    faults: list[Columns] = [
        {"value": (NUMBER, some(1))},
        {"key": (LONG, some(1))},
        {"headers": (ArrayType(TEXT), some(["h"]))},
        {"partition": (LONG, some(0))},
        {"partition": (NUMBER, some(0, 7))},
        {"partition": (NUMBER, some(0, -2))},
        {"topic": (TEXT, some(targets[0], None))},
        {"topic": (TEXT, some(targets[0], "of two words"))},
    ]
    chosen = {name: column for name, column in given.items() if random.random() < (0.95 if name == "value" else 0.6)}
    if "key" not in chosen:
        chosen.pop("partition", None)
    return chosen | (random.choice(faults) if random.random() < 0.4 else {})


@pytest.mark.parametrize("seed", SEEDS)
def test_what_levada_writes_is_what_the_connector_writes(connector: Any, topics: Topics, java_clients: Asked, seed: int) -> None:
    found: dict[str, Outcome] = {}
    for source in BOTH:
        random = Random(seed)
        targets = [topics.fresh(PARTITIONS), topics.fresh(PARTITIONS)]
        given = columns(random, targets)
        options = {"kafka.bootstrap.servers": topics.servers, "kafka.max.block.ms": "3000"}
        if random.random() < 0.8:
            options["topic"] = targets[0]
        frame = connector.createDataFrame(
            list(zip(*(values for _, values in given.values()), strict=True)),
            StructType([StructField(name, kind) for name, (kind, _) in given.items()]),
        )
        written = outcome(frame.coalesce(1).write.format(source).mode("append").options(**options).save)
        read_back = [by_partition(java_clients, topics.servers, topic, all_placed="partition" in given) for topic in targets]
        found[source] = written or read_back
    assert_same(found, {**options, **{name: f"{kind.simpleString()} {values}" for name, (kind, values) in given.items()}})


def by_partition(java: Asked, servers: str, topic: str, *, all_placed: bool) -> tuple[Any, ...]:
    """Read a topic, and return its records in a form for comparison.

    all_placed: whether every row names its partition; then return the records of each partition in order. Otherwise return the records
    with a key by partition, and the records without a key in one sorted list.
    """
    records = read(java, servers, topic)
    placed = {partition: [of(record) for record in records if record.partition == partition] for partition in range(PARTITIONS)}
    if all_placed:
        return (placed,)
    keyed = {partition: [record for record in found if record[0] is not None] for partition, found in placed.items()}
    return keyed, sorted(repr(of(record)) for record in records if record.key is None)


def of(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, record.headers

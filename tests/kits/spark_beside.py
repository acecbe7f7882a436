"""Generated options for format("levada") and Spark's own format("kafka"), and the result of a query: rows or a kind of error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NamedTuple

import pytest

from spark_topics import NOW_MS, Topics

BOTH = ("kafka", "levada")


class Refused(NamedTuple):
    """A query that failed. kind: a key of KINDS, or UNKNOWN."""

    kind: str
    message: str


Outcome = Any
"""Refused, or the result of a query that succeeded."""


def outcome(run: Callable[[], Any], attempts: int = 3) -> Outcome:
    """Return the result of a query, or Refused. attempts: how often a query runs that fails because of the machine."""
    try:
        return run()
    except Exception as error:
        if attempts > 1 and any(fault in str(error) for fault in NO_FAULTS_OF_THE_QUERY):
            return outcome(run, attempts - 1)
        # The class of the exception depends on the way through the JVM; its text does not.
        return Refused(kind_of(str(error)), str(error))


def of_both(run: Callable[[str], Any]) -> dict[str, Outcome]:
    """Run the same query with both sources at the same time."""
    with ThreadPoolExecutor(len(BOTH)) as pool:
        return dict(zip(BOTH, pool.map(lambda source: outcome(lambda: run(source)), BOTH), strict=True))


def assert_same(found: Mapping[str, Outcome], given: Mapping[str, str]) -> None:
    """Assert that both sources returned equal rows, or errors of the same kind. given: the query's options."""
    theirs, ours = (found[source] for source in BOTH)
    if isinstance(theirs, Refused) and OF_ITS_THREADS in theirs.message:
        pytest.skip(f"the connector has no answer, its own threads were in each other's way three times: {given}")
    if is_missed_by_the_connector(given, ours):
        return
    if isinstance(theirs, Refused) and isinstance(ours, Refused):
        assert ours.kind == theirs.kind != UNKNOWN, f"{given}\nconnector: {theirs}\nlevada: {ours}"
    else:
        assert ours == theirs, given


def is_missed_by_the_connector(given: Mapping[str, str], ours: Outcome) -> bool:
    """Whether only levada reports that a partition's end is before its start.

    If the options make the connector split partitions, it silently reads nothing from such a partition.
    """
    return isinstance(ours, Refused) and ours.kind == BACKWARDS and not {"minPartitions", "maxRecordsPerPartition"}.isdisjoint(given)


def rows(spark: Any, source: str, given: Mapping[str, str]) -> list[Any]:
    """Return the rows of a batch query in the order of the log."""
    found = spark.read.format(source).options(**given).load().collect()
    return sorted((row.topic, row.partition, row.offset, *row) for row in found)


# Kinds of errors

UNKNOWN = "unknown"
OF_ITS_THREADS = "ConcurrentModificationException"
NO_FAULTS_OF_THE_QUERY = (OF_ITS_THREADS, "Python worker failed to connect back")
"""The connector's threads are sometimes in each other's way, and Spark gives a process ten seconds to start on a busy machine."""
BACKWARDS = "ends before it starts"
KINDS: Mapping[str, str] = {
    "data loss": "may have been lost|DataLossError",
    "no such topic": "UnknownTopicOrPartition",
    "no record so young": "No offset matched from request|has no record from",
    BACKWARDS: "is greater than the (?:resolved )?end (?:offset|timestamp)|is before 'starting|but its log ends at",
    "column of a wrong type": "attribute unsupported type|column '.*' must be",
    "no value": "Required attribute 'value' not found|needs a column 'value'",
    "no topic": r"topic option required|where to\?",
    "row without a topic": "null topic present|rows have no topic",
    "no such partition": "Invalid partition: -2|Partition 7 of topic|partition (?:-2|7): the topic has",
    "name of no topic": "InvalidTopic",
}
"""By kind, a pattern of the texts of both sources."""


def kind_of(message: str) -> str:
    """Return the kind of an error by its text, or UNKNOWN."""
    return next((kind for kind, said in KINDS.items() if re.search(said, message)), UNKNOWN)


# Options


def batch_options(random: Random, topics: Topics, always: str | None = None) -> dict[str, str]:
    """Return random options of a batch query; some are invalid. always: a kind of topic that the query must read; None for any."""
    kinds = random.sample(sorted(topics.sizes), random.choice([1, 1, 2, 3]))
    kinds = [always, *(kind for kind in kinds[1:] if kind != always)] if always else kinds
    partitions = {topics.name(kind): list(range(topics.sizes[kind])) for kind in kinds}
    optional = {
        "includeHeaders": "true",
        "minPartitions": str(random.randint(1, 9)),
        "maxRecordsPerPartition": str(random.randint(20, 90)),
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
    }
    return {
        "kafka.bootstrap.servers": topics.servers,
        "kafkaConsumer.pollTimeoutMs": "1000",
        **selection(random, partitions),
        **bound(random, "starting", "earliest", partitions),
        **bound(random, "ending", "latest", partitions),
        **{name: value for name, value in optional.items() if random.random() < 0.4},
    }


def selection(random: Random, partitions: Mapping[str, list[int]]) -> dict[str, str]:
    """Return an option that names these topics by name, pattern or partition, and sometimes a topic that does not exist."""
    missing = ["beside-missing"] if random.random() < 0.05 else []
    match random.choice(["subscribe", "assign", "subscribePattern"]):
        case "subscribe":
            return {"subscribe": ", ".join([*partitions, *missing])}
        case "assign":
            return {"assign": json.dumps({**partitions, **{topic: [0] for topic in missing}})}
        case _:
            return {"subscribePattern": "|".join([*partitions, *missing])}


def bound(random: Random, side: str, word: str, partitions: Mapping[str, list[int]]) -> dict[str, str]:
    """Return an option for the start or the end of a query: none, a word, offsets, or times.

    side: "starting" or "ending". word: the value of startingOffsets or endingOffsets that is a word. Some offsets are outside of the log.
    """

    def each(value: Callable[[], int]) -> str:
        return json.dumps({topic: {str(number): value() for number in numbers} for topic, numbers in partitions.items()})

    low, high = (0, 40) if side == "starting" else (20, 95)
    special = -2 if side == "starting" else -1
    match random.randrange(6):
        case 0:
            return {f"{side}Offsets": word}
        case 1 | 2:
            return {f"{side}Offsets": each(lambda: random.choice([special, random.randint(low, high)]))}
        case 3:
            return {f"{side}OffsetsByTimestamp": each(lambda: NOW_MS - random.randint(600_000, 1_100_000))}
        case 4:
            return {f"{side}Timestamp": str(NOW_MS - random.randint(600_000, 1_100_000))}
        case _:
            return {}

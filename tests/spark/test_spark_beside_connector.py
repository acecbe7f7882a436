"""format("levada") beside Spark's own format("kafka"), with the same options on the same real broker: the same rows, or both refuse."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import levada as lv
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEEDS = range(int(os.environ.get("LEVADA_SPARK_SEEDS", "20")))
NOW_MS = int(time.time() * 1000)
_numbers = count()


class Topics:
    """Topics of every kind, on one broker, and their names."""

    def __init__(self, kafka: Any) -> None:
        self.servers = kafka.bootstrap_servers
        self.prefix = f"beside{next(_numbers)}-"
        self.sizes = {"plain": 3, "empty": 2, "transactions": 2, "deleted": 2}
        for name, partitions in self.sizes.items():
            kafka.create_topic(self.prefix + name, partitions)
        self._write("plain", 300)
        self._write("deleted", 100)
        self._delete_before("deleted", 30)
        self._transactions()

    def name(self, kind: str) -> str:
        return self.prefix + kind

    def _write(self, kind: str, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(records):
            producer.produce(
                self.name(kind),
                key=None if number % 7 == 0 else b"k%d" % (number % 5),
                value=None if number % 11 == 0 else b"v%d" % number,
                partition=number % self.sizes[kind],
                timestamp=NOW_MS - 1_000_000 + number * 1000,
                headers=[("n", b"%d" % number), ("empty", None)] if number % 3 == 0 else [],
            )
        assert producer.flush(30) == 0

    def _delete_before(self, kind: str, offset: int) -> None:
        with lv.KafkaClient(bootstrap_servers=self.servers) as client:
            for info in client.request(_metadata_of(self.name(kind))).topics[0].partitions:
                partition = DeleteRecordsPartition(partition_index=info.partition_index, offset=offset)
                topic = DeleteRecordsTopic(name=self.name(kind), partitions=[partition])
                client.request(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), node=info.leader_id)

    def _transactions(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.prefix})
        producer.init_transactions(30)
        for number in range(12):
            producer.begin_transaction()
            for record in range(5):
                producer.produce(self.name("transactions"), b"t%d-%d" % (number, record), partition=record % 2)
            producer.abort_transaction(30) if number % 3 == 1 else producer.commit_transaction(30)


def _metadata_of(topic: str) -> Any:
    from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


@pytest.fixture(scope="module")
def topics(kafka44: Any) -> Topics:
    return Topics(kafka44)


def options(random: Random, topics: Topics) -> dict[str, str]:
    """Options of a batch query: mostly sensible ones, some that have to be refused."""
    kinds = random.sample(sorted(topics.sizes), random.choice([1, 1, 2, 3]))
    partitions = {topics.name(kind): list(range(topics.sizes[kind])) for kind in kinds}
    chosen: dict[str, str] = {"kafka.bootstrap.servers": topics.servers, "kafkaConsumer.pollTimeoutMs": "1000"}
    match random.choice(["subscribe", "assign", "subscribePattern"]):
        case "subscribe":
            chosen["subscribe"] = ", ".join(partitions)
        case "assign":
            chosen["assign"] = json.dumps(partitions)
        case _:
            chosen["subscribePattern"] = "|".join(partitions)
    chosen.update(bound(random, "starting", "earliest", partitions))
    chosen.update(bound(random, "ending", "latest", partitions))
    optional = {
        "includeHeaders": "true",
        "minPartitions": str(random.randint(1, 9)),
        "maxRecordsPerPartition": str(random.randint(20, 90)),
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
    }
    return chosen | {name: value for name, value in optional.items() if random.random() < 0.4}


def bound(random: Random, side: str, word: str, partitions: dict[str, list[int]]) -> dict[str, str]:
    """Where the query begins or ends: left out, a word, offsets, or times. Of offsets some are beyond the log or before its start."""

    def each(value: Callable[[], int]) -> str:
        return json.dumps({topic: {str(number): value() for number in numbers} for topic, numbers in partitions.items()})

    low, high = (0, 40) if side == "starting" else (40, 95)
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


def rows(spark: Any, source: str, given: dict[str, str]) -> list[Any] | str:
    """The rows in the order of the log, or "refused"."""
    try:
        found = spark.read.format(source).options(**given).load().collect()
    except Exception as error:
        # Which exception it is depends on the way through the JVM; that there is one does not.
        return f"refused: {error}"
    return sorted((row.topic, row.partition, row.offset, *(value for value in row)) for row in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_query_has_the_rows_of_the_connector(connector: Any, topics: Topics, seed: int) -> None:
    given = options(Random(seed), topics)
    theirs, ours = rows(connector, "kafka", given), rows(connector, "levada", given)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert (isinstance(theirs, str), isinstance(ours, str)) == (True, True), f"{given}\nconnector: {theirs}\nlevada: {ours}"
    else:
        assert ours == theirs, given


# Checkpoints


def stream(spark: Any, source: str, servers: str, topic: str, **given: str) -> Any:
    return spark.readStream.format(source).options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, **given}).load()


def run_once(spark: Any, source: str, servers: str, topic: str, checkpoint: Path, **given: str) -> list[str]:
    """Run a stream over what is there, from and to its checkpoint; return the values that it read."""
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


# Writing


def test_what_levada_writes_is_what_the_connector_writes(connector: Any, kafka44: Any, new_topic: Any) -> None:
    frame = connector.range(200).selectExpr(
        "if(id % 5 = 0, null, cast(id % 7 as string)) key",
        "if(id % 9 = 0, null, cast(id as string)) value",
        "array(struct('h' as key, encode(cast(id as string), 'utf-8') as value)) headers",
        "cast(id % 3 as int) partition",
    )
    found = {}
    for source in ("kafka", "levada"):
        topic = new_topic(kafka44, partitions=3)
        frame.write.format(source).mode("append").options(**{"kafka.bootstrap.servers": kafka44.bootstrap_servers, "topic": topic}).save()
        found[source] = records(kafka44.bootstrap_servers, topic, 200)
    assert found["levada"] == found["kafka"]


def records(servers: str, topic: str, number: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message for _ in range(number) if (message := consumer.poll(20)) is not None]
    consumer.close()
    return sorted((record.partition(), repr(record.key()), repr(record.value()), repr(record.headers())) for record in found)

"""The same record batches with aiokafka's compiled classes, kafka-python's classes, and a confluent-kafka consumer."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from aiokafka.record import default_records as aiokafka_records
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from aiokafka.structs import ConsumerRecord as AiokafkaConsumerRecord
from confluent_kafka import Consumer, TopicPartition
from kafka.record import default_records as kafka_python_records
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from codec_records import BATCH_BYTES, NOW_MS, PARTITION, Material, count, touch

MOCK_CLUSTER = Path(__file__).parent / "codec_mock_cluster.py"
AT_ONCE = 10_000


def decode(material: Material) -> dict[str, Callable[[], int]]:
    """Return the peers' ways to decode record batches. Checksums are not verified."""
    data = material.data
    return {
        "aiokafka records": lambda: sum(map(touch, _batches(AiokafkaRecords(data)))),
        "aiokafka records, none looked at": lambda: sum(map(count, _batches(AiokafkaRecords(data)))),
        "aiokafka columns (value, offset)": lambda: _table(_batches(AiokafkaRecords(data))),
        "aiokafka consumer records": lambda: sum(touch(_consumer_records(batch)) for batch in _batches(AiokafkaRecords(data))),
        "kafka-python records": lambda: sum(map(touch, _batches(KafkaPythonRecords(data)))),
    }


def _batches(batches: Any) -> Iterator[Any]:
    while batches.has_next():
        yield batches.next_batch()


def _table(batches: Iterator[Any]) -> int:
    rows = [(record.value, record.offset) for batch in batches for record in batch]
    table = pa.table([pa.array([row[0] for row in rows], pa.binary()), pa.array([row[1] for row in rows], pa.int64())], ["value", "offset"])
    return int(table.num_rows)


def _consumer_records(batch: Any) -> Iterator[Any]:
    """Yield the objects that aiokafka's fetcher makes of records without deserializers."""
    topic, partition = PARTITION
    for record in batch:
        key, value = record.key, record.value
        yield AiokafkaConsumerRecord(
            topic=topic,
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=record.timestamp_type,
            key=key,
            value=value,
            checksum=record.checksum,
            serialized_key_size=len(key) if key is not None else -1,
            serialized_value_size=len(value) if value is not None else -1,
            headers=tuple(record.headers),
        )


def encode(material: Material) -> dict[str, Callable[[], int]]:
    """Return the peers' ways to encode record batches."""
    return {
        "aiokafka append": lambda: _append(material, aiokafka_records.DefaultRecordBatchBuilder),
        "kafka-python append": lambda: _append(material, kafka_python_records.DefaultRecordBatchBuilder),
    }


def _append(material: Material, kind: Any) -> int:
    def new() -> Any:
        return kind(
            magic=2,
            compression_type=int(material.codec),
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BATCH_BYTES,
        )

    builder, offset = new(), 0
    for value in material.values:
        if builder.append(offset, NOW_MS, None, value, []) is None:
            builder.build()
            builder, offset = new(), 0
            builder.append(offset, NOW_MS, None, value, [])
        offset += 1
    builder.build()
    return material.count


@contextmanager
def confluent(material: Material) -> Iterator[dict[str, Callable[[], int]]]:
    """Yield the way of a confluent-kafka consumer. The records are in a librdkafka mock cluster in another process.

    All threads of this process count.
    """
    job = {"size": material.size, "codec": material.codec.name.lower(), "count": material.count}
    with subprocess.Popen([sys.executable, str(MOCK_CLUSTER), json.dumps(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cluster:
        assert cluster.stdin and cluster.stdout
        where = json.loads(cluster.stdout.readline())
        consumer = Consumer(
            {
                "bootstrap.servers": where["bootstrap"],
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "queued.min.messages": 1_000_000,
                "fetch.queue.backoff.ms": 2,
            }
        )
        yield {"confluent-kafka consume to (value, offset)": lambda: _consume(consumer, where["partitions"], material.count)}
        consumer.close()
        cluster.stdin.close()


def _consume(consumer: Consumer, partitions: int, count: int) -> int:
    consumer.assign([TopicPartition("bench", partition, 0) for partition in range(partitions)])
    seen = 0
    while seen < count:
        messages = consumer.consume(min(AT_ONCE, count - seen), 5.0)
        columns = [pa.array([each.value() for each in messages], pa.binary()), pa.array([each.offset() for each in messages], pa.int64())]
        seen += pa.table(columns, ["value", "offset"]).num_rows
    consumer.unassign()
    return seen

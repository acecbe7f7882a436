"""Ten thousand partitions on the embedded broker: assigned, moved and read."""

from __future__ import annotations

from levada import KafkaConsumer, KafkaProducer, TopicPartition
from levada.testing import EmbeddedKafka

PARTITIONS = 10_000
WRITTEN = range(0, PARTITIONS, 100)


def read(consumer: KafkaConsumer, count: int) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        found |= {(record.partition, record.offset) for record in consumer.poll(30, max_records=PARTITIONS)}
    return found


def test_ten_thousand_partitions_are_assigned_moved_and_read() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", PARTITIONS)
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for partition in WRITTEN:
                producer.send("t", value=b"a", partition=partition)
                producer.send("t", value=b"b", partition=partition)
        tps = [TopicPartition("t", partition) for partition in range(PARTITIONS)]
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(tps)
            assert read(consumer, 200) == {(partition, offset) for partition in WRITTEN for offset in (0, 1)}
            consumer.pause(tps[5_000:])
            for tp in tps:
                consumer.seek(tp, 1)
            assert read(consumer, 50) == {(partition, 1) for partition in WRITTEN if partition < 5_000}
            consumer.resume(tps)
            assert read(consumer, 50) == {(partition, 1) for partition in WRITTEN if partition >= 5_000}

"""Arguments: bootstrap servers, and a name. Reads every partition of a topic from its beginning to its end, without a group's help."""

import sys

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

servers, name = sys.argv[1:3]


def main() -> None:
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for number in range(40):
        producer.produce(name, str(number), f"key-{number}", timestamp=5000 + number)
    producer.flush()

    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.partition.eof": True, "enable.auto.commit": False})
    partitions = sorted(consumer.list_topics(name, timeout=10).topics[name].partitions)
    assigned = [TopicPartition(name, partition, OFFSET_BEGINNING) for partition in partitions]
    marks = {at.partition: consumer.get_watermark_offsets(at, timeout=10) for at in assigned}
    print("watermarks:", marks)
    consumer.assign(assigned)
    read: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in partitions}
    ended: dict[int | None, int | None] = {}
    while len(ended) < len(partitions):
        message = consumer.poll(5.0)
        assert message is not None
        error = message.error()
        if error is None:
            read[message.partition() or 0].append((message.offset() or 0, message.value()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended[message.partition()] = message.offset()
        else:
            raise KafkaException(error)
    print("read:", read)
    print(
        "ended:",
        sorted((partition or 0, offset) for partition, offset in ended.items()),
        all(marks[partition or 0][1] == offset for partition, offset in ended.items()),
    )
    print("positions:", [max(at.offset, 0) for at in consumer.position(assigned)])

    consumer.seek(TopicPartition(name, 0, max(marks[0][1] - 1, 0)))
    message = consumer.poll(5.0)
    print("again:", message and message.value())
    consumer.pause([TopicPartition(name, 0)])
    found = consumer.offsets_for_times([TopicPartition(name, partition, 5020) for partition in partitions], timeout=10)
    print("by time:", [(at.partition, at.offset) for at in found])
    consumer.unassign()
    print("assigned:", consumer.assignment(), "read:", consumer.poll(0.1))
    consumer.assign([TopicPartition(name, 0, OFFSET_END)])
    message = consumer.poll(5.0)
    print("end:", message and message.error() == KafkaError._PARTITION_EOF)
    consumer.incremental_assign([TopicPartition(name, 1, OFFSET_BEGINNING)])
    consumer.incremental_unassign([TopicPartition(name, 0)])
    print("assigned:", [at.partition for at in consumer.assignment()])
    consumer.close()


main()

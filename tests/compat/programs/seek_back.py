"""Arguments: bootstrap servers, and a name. Stores offsets, goes back, and commits what was stored before."""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition, libversion

servers, name = sys.argv[1:3]


def read(consumer: Consumer, limit: int) -> int:
    """Return the last offset of so many messages."""
    offsets: list[int] = []
    while len(offsets) < limit:
        message = consumer.poll(1.0)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            offsets.append(message.offset() or 0)
    return offsets[-1]


def committed(consumer: Consumer) -> str:
    """Commit what is stored, and say what that was."""
    try:
        return str([at.offset for at in consumer.commit(asynchronous=False) or []])
    except KafkaException as error:
        return str(error.args[0].name())


def main() -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(40):
        producer.produce(name, b"%d" % number, partition=0)
    producer.flush()
    print("new enough:", libversion()[1] >= 0x01060000)
    for stores in (True, False):
        group = f"{name}-{stores}"
        settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**settings, "enable.auto.offset.store": stores})
        consumer.assign([TopicPartition(name, 0, 0)])
        read(consumer, 20)
        if not stores:
            consumer.store_offsets(offsets=[TopicPartition(name, 0, 10)])
        for goal in (5, OFFSET_BEGINNING, 30):
            consumer.seek(TopicPartition(name, 0, goal))
            print("sought:", [at.offset for at in consumer.position([TopicPartition(name, 0)])], committed(consumer))
            offset = read(consumer, 1)
            if not stores:
                consumer.store_offsets(offsets=[TopicPartition(name, 0, offset + 1)])
            print("read:", offset, committed(consumer))
        consumer.seek(TopicPartition(name, 0, 35))
        read(consumer, 1)
        consumer.assign([TopicPartition(name, 0, 2)])
        print("assigned again:", committed(consumer), [at.offset for at in consumer.committed([TopicPartition(name, 0)], timeout=10)])
        consumer.close()


main()

"""Arguments: bootstrap servers, and a name. Reads half of a topic and stops; the next member of the group reads the other half."""

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

servers, name = sys.argv[1:3]
PARTITION = TopicPartition(name, 0)


def read(consumer: Consumer, limit: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < limit:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        messages.append(message)
        print(message.partition(), message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
    return messages


def main() -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce(name, b"%d" % number, b"k", 0, timestamp=1000 + number, headers=[("h", b"%d" % number), ("n", None)])
    producer.flush()

    config = {"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    first = Consumer(config)
    first.subscribe([name])
    messages = read(first, 6)
    committed = first.commit(message=messages[3], asynchronous=False)
    print("committed:", [(at.partition, at.offset, at.error) for at in committed or []])
    print("position:", [at.offset for at in first.position([PARTITION])])
    first.close()

    second = Consumer(config)
    second.subscribe([name])
    read(second, 6)
    print("stored:", [(at.partition, at.offset) for at in second.commit(asynchronous=False) or [] if at.offset >= 0])
    try:
        second.commit(asynchronous=False)
    except KafkaException as error:
        print("nothing to commit:", error.args[0].name())
    print("committed:", [at.offset for at in second.committed([PARTITION, TopicPartition(name, 1)], timeout=10)])
    second.commit(offsets=[TopicPartition(name, 0, 2, "note")], asynchronous=False)
    print("noted:", [(at.offset, at.metadata) for at in second.committed([PARTITION], timeout=10)])
    print("after the end:", second.poll(0.2))
    second.close()
    try:
        second.poll(0)
    except RuntimeError as error:
        print("closed:", error)


main()

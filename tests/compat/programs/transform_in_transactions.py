"""Arguments: bootstrap servers, and a name. Doubles numbers of one topic into another, exactly once, with one attempt that is aborted."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

servers, name = sys.argv[1:3]
source, target = name + "-in", name + "-out"


def doubled(consumer: Consumer, producer: Producer, *, abort: bool) -> int:
    """Handle up to 5 messages in one transaction; return their number."""
    messages = [message for message in consumer.consume(5, timeout=2.0) if not message.error()]
    if not messages:
        return 0
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, str(2 * int(message.value() or b"0")), message.key())
        producer.poll(0)
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
    if not abort:
        producer.commit_transaction()
        return len(messages)
    producer.abort_transaction()
    for at in consumer.committed(consumer.assignment(), timeout=10):
        consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))
    return 0


def main() -> None:
    feeder = Producer({"bootstrap.servers": servers})
    for number in range(12):
        feeder.produce(source, str(number), b"k", partition=0)
    feeder.flush()
    try:
        feeder.begin_transaction()
    except KafkaException as error:
        print("no transactions:", error.args[0].name())

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest"},
    )
    consumer.subscribe([source])
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(20)
    try:
        producer.produce(target, b"outside")
    except KafkaException as error:
        print("outside:", error.args[0].name(), error.args[0].retriable(), error.args[0].fatal(), error.args[0].txn_requires_abort())
    aborted = done = 0
    while done < 12:
        if aborted < 1:
            doubled(consumer, producer, abort=True)
            aborted += 1
        done += doubled(consumer, producer, abort=False)
    print("done:", done)
    print("committed:", sum(at.offset for at in consumer.committed(consumer.assignment(), timeout=10) if at.offset > 0))
    consumer.close()

    # A second producer of the same id fences the first.
    Producer({"bootstrap.servers": servers, "transactional.id": name}).init_transactions(20)
    try:
        producer.begin_transaction()
        producer.produce(target, b"late")
        producer.commit_transaction(10)
    except KafkaException as error:
        print("fenced:", error.args[0].name(), error.args[0].fatal())

    reader = Consumer({"bootstrap.servers": servers, "group.id": name + "-reader", "auto.offset.reset": "earliest"})
    reader.subscribe([target])
    values: list[int] = []
    while len(values) < 12:
        message = reader.poll(1.0)
        if message is not None and not message.error():
            values.append(int(message.value() or b"0"))
    print("doubled:", values, "and then:", reader.poll(0.3))
    reader.close()


main()

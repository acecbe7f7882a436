"""Arguments: bootstrap servers, and a name. Two members share a topic; each commits what it has handled before it gives partitions up."""

import sys
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition

servers, name = sys.argv[1:3]
handled: Counter[bytes] = Counter()
events: dict[str, list[str]] = {"first": [], "second": []}


class Member:
    def __init__(self, called: str) -> None:
        self.called = called
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
                "partition.assignment.strategy": "range",
                "heartbeat.interval.ms": 100,
            }
        )
        self.consumer.subscribe([f"^{name}.*"], on_assign=self.assigned, on_revoke=self.revoked)

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        events[self.called].append(f"+{len(partitions)}")
        consumer.assign(partitions)

    def revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        events[self.called].append(f"-{len(partitions)}")
        try:
            consumer.commit(asynchronous=False)
        except Exception as error:
            assert error.args[0].name() == "_NO_OFFSET", error
        consumer.unassign()

    def handle_one(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and not message.error():
            handled[message.value() or b""] += 1
            self.consumer.store_offsets(message)


def main() -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(60):
        producer.produce(name, b"%d" % number, partition=number % 4)
    producer.flush()
    first = Member("first")
    while len(handled) < 10:
        first.handle_one()
    second = Member("second")
    while not events["second"]:
        first.handle_one()
        second.handle_one()
    for number in range(60, 100):
        producer.produce(name, b"%d" % number, partition=number % 4)
    producer.flush()
    while len(handled) < 100:
        first.handle_one()
        second.handle_one()
    first.consumer.close()
    while len(events["second"]) < 3:
        second.handle_one()
    second.consumer.close()
    print("handled:", len(handled), "more than once:", sum(count > 1 for count in handled.values()))
    print("first:", events["first"], "second:", events["second"])
    reader = Consumer({"bootstrap.servers": servers, "group.id": name})
    found = reader.committed([TopicPartition(name, partition) for partition in range(4)], timeout=10)
    print("committed:", [at.offset for at in found])
    reader.close()


main()

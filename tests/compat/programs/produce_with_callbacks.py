"""Arguments: bootstrap servers, and a name. Produces orders, and counts what the delivery reports say."""

import sys
from collections import Counter

from confluent_kafka import KafkaError, KafkaException, Message, Producer

servers, name = sys.argv[1:3]
reports: Counter[str] = Counter()
places: dict[str, set[int]] = {}


def delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        reports[error.name()] += 1
        return
    reports["delivered"] += 1
    key = message.key()
    places.setdefault("no key" if key is None else key.decode(), set()).add(message.partition() or 0)
    assert message.topic() == name
    assert message.headers() is None
    assert message.timestamp()[0] == 1
    assert (message.latency() or 0) > 0


def main() -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2, "queue.buffering.max.messages": 50})
    full = 0
    for number in range(300):
        while True:
            try:
                producer.produce(
                    name,
                    f"order {number}",
                    key=f"customer-{number % 7}",
                    headers={"number": str(number)},
                    callback=delivered,
                )
                break
            except BufferError as error:
                full += 1
                assert str(error) == "Local: Queue full"
                producer.poll(0.05)
        producer.poll(0)
    print("left:", producer.flush(20), "length:", len(producer), "was full:", full > 0)
    producer.produce(name, b"with a place", partition=2, timestamp=1_700_000_000_000, on_delivery=delivered)
    print("left:", producer.flush(20))
    for attempt in ({"value": b"x" * 2_000_000}, {"value": b"x", "partition": 99}):
        try:
            producer.produce(name, **attempt)
        except KafkaException as error:
            print("refused:", error.args[0].name(), error.args[0].code())
    producer.produce(name + "-unknown", b"x", partition=99, on_delivery=delivered)
    print("left:", producer.flush(20))
    print("reports:", sorted(reports.items()))
    print("places:", sorted((key, sorted(found)) for key, found in places.items() if key != "no key"))
    metadata = producer.list_topics(name, timeout=10)
    print("partitions:", sorted(metadata.topics[name].partitions), "error:", metadata.topics[name].error)


main()

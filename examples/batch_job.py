"""A batch job that can be repeated: it sums what is new in a topic, and writes the sums and its position in one transaction.

    python examples/batch_job.py --kafka localhost:9092

Each run reads the payments from the last run's position to the end of the topic, and writes a record per customer to the topic revenue.
Without --kafka, or KAFKA in the environment, it starts the embedded broker, writes some payments and runs twice.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import levada as lv
from levada.testing import EmbeddedKafka

SOURCE, RESULTS, GROUP = "payments", "revenue", "revenue-job"


def run(kafka: str) -> int:
    """Work on what is new, and return the number of payments."""
    settings = {"bootstrap.servers": kafka, "isolation.level": "read_committed"}
    with (
        lv.KafkaProducer({"bootstrap.servers": kafka, "transactional.id": GROUP}) as producer,
        lv.KafkaConsumer(settings, group_id=GROUP, enable_auto_commit=False) as consumer,
    ):
        # This comes first. It aborts the transaction of a run that was killed, and fences a run that is still alive.
        producer.init_transactions()
        start, end = piece(consumer)
        payments = lv.scan(SOURCE, settings, start=start, end=end, columns=["key", "value"], text=["key", "value"]).to_table()
        with producer.transaction():
            producer.send_arrow(RESULTS, sums(payments), key="customer", value="sum")
            producer.send_offsets_to_transaction(end, GROUP)
        return len(payments)


def piece(consumer: lv.KafkaConsumer[Any, Any]) -> tuple[dict[lv.TopicPartition, int], dict[lv.TopicPartition, int]]:
    """Return where the last run has ended and where the topic ends now, for each partition."""
    partitions = [lv.TopicPartition(info.topic, info.partition) for info in consumer.partitions_for(SOURCE)]
    first, committed = consumer.beginning_offsets(partitions), consumer.committed(partitions)
    start = {place: max(first[place], done.offset if (done := committed[place]) else 0) for place in partitions}
    return start, consumer.end_offsets(partitions)


def sums(payments: pa.Table) -> pa.Table:
    """Return a row per customer: the sum of the payments, as text."""
    payments = payments.set_column(1, "amount", pc.cast(payments["value"], pa.int64()))
    summed = payments.group_by("key").aggregate([("amount", "sum")]).sort_by("key")
    return pa.table({"customer": summed["key"], "sum": pc.cast(summed["amount_sum"], pa.string())})


def pay(kafka: str, *payments: tuple[str, str]) -> None:
    """Write payments: customer and amount."""
    with lv.KafkaProducer(bootstrap_servers=kafka) as producer:
        producer.send_many(SOURCE, payments)
        producer.flush()


def main() -> None:
    """Run once; on the embedded broker, twice."""
    options = argparse.ArgumentParser()
    options.add_argument("--kafka", default=os.environ.get("KAFKA"), help="HOST:PORT; default: the embedded broker")
    given = options.parse_args()
    if given.kafka:
        print(f"{run(given.kafka)} payments")
        return
    with EmbeddedKafka(num_partitions=3) as embedded:
        for payments in ([("ann", "10"), ("bob", "5"), ("ann", "7")], [("bob", "1")]):
            pay(embedded.bootstrap_servers, *payments)
            print(f"{run(embedded.bootstrap_servers)} payments")
        for record in lv.scan(RESULTS, bootstrap_servers=embedded.bootstrap_servers, isolation_level="read_committed"):
            print(f"{record.key!r}: {record.value!r}")


if __name__ == "__main__":
    main()

"""Django signals to Kafka: python examples/django_signals.py

Saving an order writes to Kafka in two ways. `transaction.on_commit` sends a notice once the order is committed: never for an order that was
rolled back, but the notice is lost if the process dies at that moment. The outbox is a table: its row is committed with the order, or not
at all. A relay sends the rows to Kafka and deletes them once they are acknowledged, so none is lost. It may send a row twice; the header
"outbox" is then the same.

Without --kafka HOST:PORT, or KAFKA in the environment, it starts the embedded broker. It saves two orders, and a third that is rolled back.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import nullcontext, suppress
from typing import Any

import django
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

import levada as lv
from levada.testing import EmbeddedKafka

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", ":memory:")}
settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
django.setup()

producer: lv.KafkaProducer[Any, Any]


class Order(models.Model):  # type: ignore[misc]
    """What the shop sells."""

    item = models.TextField()

    class Meta:
        """The application's name, which a project takes from its folder."""

        app_label = "shop"


class Outbox(models.Model):  # type: ignore[misc]
    """A record that has to be sent."""

    topic, key, value = models.TextField(), models.TextField(), models.TextField()

    class Meta:
        """The application's name."""

        app_label = "shop"


@receiver(post_save, sender=Order)  # type: ignore[untyped-decorator]
def order_saved(instance: Order, **_: Any) -> None:
    """Write to the outbox in the order's own transaction, and send a notice after it."""
    key, value = str(instance.pk), json.dumps({"id": instance.pk, "item": instance.item})
    Outbox.objects.create(topic="orders", key=key, value=value)
    # The order is committed: an error of send() is logged, and does not become one of save().
    transaction.on_commit(lambda: producer.send("notices", value, key), robust=True)


def relay(limit: int = 1_000) -> int:
    """Send what is in the outbox, and return how many rows were acknowledged. Raise the error of the first row that was not.

    Run one relay at a time, in a process or task of its own.
    """
    rows = list(Outbox.objects.order_by("id")[:limit])
    with lv.AckBuffer(limit, after=0, retain=False) as acks:
        for row in rows:
            producer.send(row.topic, row.value, row.key, headers={"outbox": str(row.pk)}, ack=(acks, acks.put(row.pk)))
        producer.flush()
        # Rows after one that failed stay, too: they are sent again after it, in order. Rows are deleted by their ids, not by a range:
        # meanwhile another transaction of the database may have committed a lower id.
        safe = [row.pk for row in rows if row.pk <= acks.safe]
        Outbox.objects.filter(pk__in=safe).delete()
        if acks.failure:
            raise acks.failure
        return len(safe)


def save(*items: str, fail: bool = False) -> None:
    """Save orders in one transaction of the database; fail: roll it back."""
    with transaction.atomic():
        for item in items:
            Order.objects.create(item=item)
        if fail:
            raise LookupError("sold out")


def main() -> None:
    """Make the tables, save orders, relay the outbox, and print what is in Kafka."""
    global producer
    options = argparse.ArgumentParser()
    options.add_argument("--kafka", default=os.environ.get("KAFKA"), help="HOST:PORT; default: the embedded broker")
    given = options.parse_args()
    with connection.schema_editor() as schema:
        schema.create_model(Order)
        schema.create_model(Outbox)
    with nullcontext() if given.kafka else EmbeddedKafka(num_partitions=1) as embedded:
        kafka = embedded.bootstrap_servers if embedded else given.kafka
        # A notice waits at most max.block.ms: without it, a request waits for a minute while Kafka is not there.
        sending = {"bootstrap.servers": kafka, "max.block.ms": 2_000, "request.timeout.ms": 4_000, "delivery.timeout.ms": 10_000}
        with lv.KafkaProducer(sending) as producer:
            save("pear", "plum")
            with suppress(LookupError):
                save("fig", fail=True)
            print("relayed:", relay(), "left:", Outbox.objects.count())
        for topic in ("orders", "notices"):
            print(topic, [record.value for record in lv.scan(topic, bootstrap_servers=kafka)])


if __name__ == "__main__":
    main()

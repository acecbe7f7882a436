"""Quotas in virtual time: real clients against the embedded broker, which mutes them, keep to what they are allowed (N27, N29, E5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import levada as lv
from levada.testing import SimulatedKafka

RATE = 10_000
BURST = 10 * RATE
"""What may be used at once by who has been idle."""


@pytest.fixture
def kafka() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(seed=7) as kafka:
        kafka.create_topic("t", 1)
        yield kafka


def limit(kafka: SimulatedKafka, entity: lv.ClientQuotaEntity, **limits: float) -> None:
    with kafka.admin(client_id="admin") as admin:
        admin.alter_client_quotas({entity: limits})


def test_M_B8_a_producer_keeps_to_its_rate_and_loses_nothing(kafka: SimulatedKafka) -> None:
    """The throttle is much longer than request.timeout.ms, which does not count it."""
    limit(kafka, lv.ClientQuotaEntity(client_id="etl"), producer_byte_rate=RATE)
    producer = kafka.producer(client_id="etl", linger_ms=0, request_timeout_ms=2_000, delivery_timeout_ms=300_000, batch_size=40_000)
    begun_ms = kafka.wall_ms
    deliveries = [producer.send("t", bytes(1_000)) for _ in range(500)]
    producer.flush()
    elapsed_ms = kafka.wall_ms - begun_ms
    assert [delivery.result().offset for delivery in deliveries] == list(range(500))
    assert kafka.faults.requests["Produce"] <= 500 * 1_100 / 40_000 + 2, "no batch was sent twice"
    at_least_ms = (500_000 - BURST - 2 * 40_000) / RATE * 1000
    assert at_least_ms < elapsed_ms < 2 * 500_000 / RATE * 1000
    assert producer.metrics().value("produce-throttle-time-max") > 2_000
    producer.close()


def test_N29_a_consumer_keeps_to_its_rate_and_misses_nothing(kafka: SimulatedKafka) -> None:
    producer = kafka.producer(batch_size=5_000)
    for _ in range(300):
        producer.send("t", bytes(1_000))
    producer.close()
    limit(kafka, lv.ClientQuotaEntity(user="ANONYMOUS", client_id="etl"), consumer_byte_rate=RATE)
    consumer = kafka.consumer(client_id="etl", auto_offset_reset="earliest", request_timeout_ms=2_000, group_id=None)
    consumer.assign([lv.TopicPartition("t", 0)])
    begun_ms = kafka.wall_ms
    offsets: list[int] = []
    while len(offsets) < 300:
        offsets += [record.offset for record in consumer.poll(timeout=120)]
    assert offsets == list(range(300))
    assert kafka.wall_ms - begun_ms > (300_000 - BURST - 20_000) / RATE * 1000
    consumer.close()


def test_E5_another_client_is_as_quick_as_before(kafka: SimulatedKafka) -> None:
    limit(kafka, lv.ClientQuotaEntity(client_id="etl"), producer_byte_rate=RATE)
    muted, other = kafka.producer(client_id="etl", linger_ms=0), kafka.producer(client_id="other", linger_ms=0)
    for _ in range(20):
        muted.send("t", bytes(10_000))
    begun_ms = kafka.wall_ms
    for _ in range(20):
        other.send("t", bytes(10_000))
    other.flush()
    assert kafka.wall_ms - begun_ms < 100
    muted.close()
    other.close()


def test_X7_an_admin_waits_until_it_may_create_topics_again(kafka: SimulatedKafka) -> None:
    limit(kafka, lv.ClientQuotaEntity(client_id="etl"), controller_mutation_rate=1.0)
    with kafka.admin(client_id="etl") as admin:
        admin.create_topics([lv.NewTopic("first", 15, 1)])
        begun_ms = kafka.wall_ms
        admin.create_topics([lv.NewTopic("second", 1, 1)])
        assert 3_900 < kafka.wall_ms - begun_ms < 10_000


def test_a_quota_that_is_removed_mutes_nobody_any_more(kafka: SimulatedKafka) -> None:
    entity = lv.ClientQuotaEntity(client_id=lv.ClientQuotaName.DEFAULT)
    limit(kafka, entity, producer_byte_rate=RATE)
    with kafka.admin(client_id="admin") as admin:
        admin.alter_client_quotas({entity: {"producer_byte_rate": None}})
    producer = kafka.producer(linger_ms=0)
    begun_ms = kafka.wall_ms
    for _ in range(50):
        producer.send("t", bytes(10_000))
    producer.flush()
    assert kafka.wall_ms - begun_ms < 1_000
    producer.close()

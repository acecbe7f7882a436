"""Topics that come and go: a producer does not keep what it has not used for metadata.max.idle.ms, and still writes once."""

from __future__ import annotations

import pytest

from levada.broker.node.node import BrokerNode
from levada.errors import Persisted
from levada.producer.send.sequences import MAX_EPOCH, ProducerIdentity
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, batches, values
from sim_kit import broker as add_broker

IDLE_MS = 300_000


def test_D3_thousands_of_topics_used_once_leave_nothing_behind() -> None:
    with Simulation(seed=3) as sim:
        broker = add_broker(sim, wall_offset_ms=EPOCH_MS)
        producer = SimProducer(sim, linger_ms=0)
        for turn in range(3):
            for number in range(500):
                broker.create_topic(f"topic-{turn}-{number}", 1)
                producer.send(f"topic-{turn}-{number}", b"v", partition=0)
            producer.flush()
            assert len(producer.core.accumulator.topics) <= 1000, "those of the last turns but one have gone"
            sim.advance(2 * IDLE_MS)
        producer.send("last", b"v", partition=0)
        producer.flush()
        sim.advance(2 * IDLE_MS)
        assert list(producer.core.accumulator.topics) == []
        assert values(broker, "topic-0-0") == values(broker, "topic-2-499") == [b"v"]


@pytest.mark.parametrize("epoch", [0, MAX_EPOCH])
def test_I11_a_topic_that_was_dropped_is_written_to_again_under_a_new_epoch(epoch: int) -> None:
    """Its sequences are forgotten, and the broker remembers them: at 0 again it would take the record for a duplicate, and drop it."""
    with Simulation(seed=4) as sim:
        broker = add_broker(sim, wall_offset_ms=EPOCH_MS)
        broker.create_topic("t", 1)
        producer = SimProducer(sim, linger_ms=0)
        producer.send("t", b"0")
        producer.flush()
        transactions = producer.core.idempotence
        assert transactions is not None
        if epoch:
            transactions.identity = ProducerIdentity(transactions.identity.producer_id, epoch)
            producer.send("t", b"1")
            producer.flush()
        before = producer.identity()
        sim.advance(3 * IDLE_MS)
        assert not producer.core.accumulator.topics
        deliveries = [producer.send("t", value) for value in (b"2", b"3")]
        producer.flush()
        assert [delivery.exception() for delivery in deliveries] == [None, None]
        assert values(broker, "t")[-2:] == [b"2", b"3"]
        assert len(values(broker, "t")) == 3 + bool(epoch)
        assert producer.identity() != before
        after = producer.identity()
        producer.send("u", b"another new topic")
        producer.flush()
        assert producer.identity() == after, "nothing was forgotten since"


def recreate(broker: BrokerNode, topic: str) -> None:
    broker.cluster.remove(broker.cluster.topics[topic])
    broker.create_topic(topic, 1)


def numbers(broker: BrokerNode, topic: str) -> list[tuple[int, int]]:
    """Epoch and base sequence of each batch."""
    return [(batch.producer_epoch, batch.base_sequence) for batch in batches(broker, topic)]


def test_M_A24_a_topic_that_was_created_again_starts_a_fresh_sequence() -> None:
    with Simulation(seed=5) as sim:
        broker = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
        for topic in ("t", "other"):
            broker.create_topic(topic, 1)
        producer = SimProducer(sim, linger_ms=0)
        for value in (b"0", b"1"):
            producer.send("t", value).result()
            producer.send("other", value).result()
        assert numbers(broker, "t") == [(0, 0), (0, 1)]
        recreate(broker, "t")
        assert [producer.send("t", value).result(timeout=60).offset for value in (b"2", b"3")] == [0, 1]
        assert numbers(broker, "t") == [(1, 0), (1, 1)]
        producer.send("other", b"2").result()
        producer.send("t", b"4").result()
        assert (numbers(broker, "t")[-1], numbers(broker, "other")[-1]) == ((1, 2), (1, 0))


def test_M_A24_a_topic_that_is_gone_for_a_while_is_known_again_as_another_one() -> None:
    with Simulation(seed=5) as sim:
        broker = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
        broker.create_topic("t", 1)
        producer = SimProducer(sim, linger_ms=0)
        producer.send("t", b"0").result()
        broker.cluster.remove(broker.cluster.topics["t"])
        delivery = producer.send("t", b"1")
        sim.advance(20_000)
        assert not delivery.done()
        broker.create_topic("t", 1)
        assert delivery.result().offset == 0
        assert numbers(broker, "t") == [(1, 0)]


def test_M_A24_a_record_whose_answer_was_lost_with_the_topic_is_not_sent_under_another_number() -> None:
    with Simulation(seed=5) as sim:
        broker = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
        broker.create_topic("t", 1)
        producer = SimProducer(sim, linger_ms=0, request_timeout_ms=1000)
        producer.send("t", b"0").result()
        broker.faults.drop_response("Produce")
        lost = producer.send("t", b"lost with the topic")
        sim.advance(500)
        recreate(broker, "t")
        error = lost.exception(timeout=60)
        assert error is not None
        assert error.persisted is Persisted.UNKNOWN
        assert producer.send("t", b"1").result().offset == 0
        assert numbers(broker, "t") == [(1, 0)]

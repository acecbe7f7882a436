"""Topics that come and go: a producer does not keep what it has not used for metadata.max.idle.ms, and still writes once."""

from __future__ import annotations

import pytest

from levada.producer.sequences import MAX_EPOCH, ProducerIdentity
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, values
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
        transactions = producer.core.transactions
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

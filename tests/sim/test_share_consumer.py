"""Share consumers beside leaders that change and locks that end, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import PORT, World
from levada.base.flow import Compute
from levada.errors import AcknowledgeError, ClosedError, TimeoutError
from levada.testing import Simulation
from share_peers import configure_group

SERVERS = f"b1:{PORT},b2:{PORT}"


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(seed=1) as simulation:
        world = World(simulation, nodes=2)
        world.topic("t")
        world.move_leader("t", 0, 1)
        with simulation.client(bootstrap_servers=SERVERS) as client:
            configure_group(client, "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms="15000")
        yield world


def member(world: World, **settings: Any) -> Any:
    consumer = world.simulation.share_consumer(
        bootstrap_servers=SERVERS, group_id="g", share_acknowledgement_mode="explicit", metadata_max_age_ms=1_000, **settings
    )
    consumer.subscribe(["t"])
    return consumer


def test_what_came_from_a_leader_that_is_none_any_more_is_not_handed_out(world: World) -> None:
    world.append("t", [b"a", b"b"], epoch=0)
    with member(world) as consumer:
        (first,) = consumer.poll(10, max_records=1)
        consumer.acknowledge(first)
        consumer.commit()
        world.move_leader("t", 0, 2)
        world.simulation.advance(3_000)
        (second,) = consumer.poll(10)
        assert second.value == b"b"
        consumer.acknowledge(second)
        # The new leader takes it: it is the one that has handed it out.
        consumer.commit()


def test_a_lock_that_has_ended_is_told_and_not_renewed(world: World) -> None:
    world.append("t", [b"a"], epoch=0)
    with member(world) as slow, member(world) as quick:
        (record,) = slow.poll(10)
        world.simulation.advance(16_000)
        (again,) = quick.poll(10)
        quick.acknowledge(again)
        quick.commit()
        slow.acknowledge(record, "renew")
        with pytest.raises(AcknowledgeError, match="the lock had ended"):
            slow.commit()
        assert slow.poll(1) == []


@pytest.mark.parametrize("is_given_up", [lambda consumer: consumer.subscribe(["u"]), lambda consumer: consumer.unsubscribe()])
def test_what_arrives_of_a_topic_that_was_given_up_is_released(world: World, is_given_up: Any) -> None:
    world.topic("u")
    world.move_leader("u", 0, 1)
    with member(world) as consumer, member(world) as another:
        while not world.requests("ShareFetch"):
            consumer.poll(0)
            world.simulation.advance(10)
        # The fetch waits at the broker for records.
        is_given_up(consumer)
        world.append("t", [b"a"], epoch=0)
        world.simulation.advance(1_000)
        (record,) = another.poll(5)
        assert (record.value, record.delivery_count) == (b"a", 2), "long before its lock had ended"
        another.acknowledge(record)


def test_a_topic_that_was_given_up_is_not_fetched_any_more(world: World) -> None:
    world.topic("u")
    world.move_leader("u", 0, 1)
    world.append("t", [b"a"], epoch=0)
    with member(world) as consumer:
        (record,) = consumer.poll(10)
        consumer.acknowledge(record)
        world.append("t", [b"b"], epoch=0)
        world.append("u", [b"c"], epoch=0)
        consumer.subscribe(["u"])
        # The coordinator has yet to be told; until then the member's assignment is the one before.
        (record,) = consumer.poll(10)
        assert (record.topic, record.value) == ("u", b"c")
        consumer.acknowledge(record)


def test_what_a_loop_was_not_given_of_a_topic_that_is_given_up_is_released(world: World) -> None:
    world.topic("u")
    world.append("t", [b"a", b"b"], epoch=0)
    with member(world) as consumer, member(world) as another:
        for record in consumer:
            consumer.acknowledge(record)
            consumer.subscribe(["u"])
            break
        assert consumer.poll(1) == []
        (record,) = another.poll(5)
        assert (record.value, record.delivery_count) == (b"b", 2), "long before its lock had ended"
        another.acknowledge(record)


def test_what_was_refused_is_logged_where_a_commit_ends_without_raising_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.topic("u")
    world.move_leader("u", 0, 2)
    world.append("t", [b"a"], epoch=0)
    world.append("u", [b"b"], epoch=0)
    with member(world) as consumer:
        consumer.subscribe(["t", "u"])
        records: list[Any] = []
        while len(records) < 2:
            consumer.acknowledge(records, "renew")
            records = list(consumer.poll(10))
        consumer.acknowledge(records)
        world.move_leader("t", 0, 2)
        world.nodes[1].faults.delay("ShareAcknowledge", 20_000)
        with pytest.raises(TimeoutError):
            consumer.commit(timeout=2)
        assert "1 records from offset 0 are delivered again unless their acknowledgement was taken: t-0" in caplog.text


@pytest.mark.parametrize("is_under_way", [True, False])
def test_what_was_acquired_over_a_connection_that_has_ended_is_not_handed_out(world: World, is_under_way: bool) -> None:
    world.append("t", [b"a", b"b"], epoch=0)
    with member(world) as consumer, member(world) as another:
        (first,) = consumer.poll(10, max_records=1)
        consumer.acknowledge(first)
        if is_under_way:
            world.faults.disconnect("ShareAcknowledge", applied=True)
            with pytest.raises(AcknowledgeError):
                consumer.commit()
        else:
            consumer.commit()
            world.network.disconnect("b1", PORT)
            world.simulation.advance(1_000)
        # Its session, and the lock on what it was not handed yet, have ended with the connection.
        (second,) = another.poll(10)
        assert (second.value, second.delivery_count) == (b"b", 2)
        assert consumer.poll(1) == []
        another.acknowledge(second)


def test_a_commit_does_not_wait_for_a_broker_that_has_gone(world: World) -> None:
    world.append("t", [b"a"], epoch=0)
    with member(world) as consumer:
        (record,) = consumer.poll(10)
        world.network.stop("b1", PORT)
        world.move_leader("t", 0, 2)
        world.simulation.advance(3_000)
        consumer.acknowledge(record)
        before_ms = world.now_ms
        with pytest.raises(AcknowledgeError, match="the session with node 1 has ended"):
            consumer.commit()
        assert world.now_ms - before_ms < 100


def test_a_poll_that_is_decoding_when_another_task_closes_the_consumer_says_so(world: World) -> None:
    world.append("t", [b"a"], epoch=0)
    with member(world) as consumer, member(world) as another:
        poll = consumer._sharing.poll(10, None)
        step = next(poll)
        while not isinstance(step, Compute):
            step = poll.send(consumer._driver._take_step(step))
        decoded = step.run()
        consumer.close()
        with pytest.raises(ClosedError):
            poll.send(decoded)
        (record,) = another.poll(5)
        assert record.delivery_count == 2, "it was released at once"
        another.acknowledge(record)

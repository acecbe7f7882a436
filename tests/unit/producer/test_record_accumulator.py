"""Batches are filled, become due, are drained fairly and put back in order."""

from __future__ import annotations

import sys
import threading
from random import Random
from typing import Any

import pytest

from accumulator_kit import Bench, a_snapshot
from levada.base.clock import NEVER_MS
from levada.client.driver_interface import closed
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.errors import ClosedError, KafkaError, RecordTooLargeError
from levada.producer.append.buffer_pool import Ticket
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.record_accumulator import ToSend
from levada.producer.delivery.delivery import Delivery
from levada.record.batch import RecordBatch
from levada.record.compression import Codec


def test_A1_records_of_a_partition_share_a_batch_until_it_is_full() -> None:
    bench = Bench()
    for _ in range(25):
        bench.append(b"x" * 90)
    sizes = [batch.size for batch in bench.queue(0).batches]
    assert len(sizes) == 3
    assert all(size <= 1000 for size in sizes)


def test_A2_a_batch_is_charged_as_it_grows_and_for_a_large_record_its_size() -> None:
    bench = Bench()
    bench.append(b"small")
    assert bench.pool.available == 1_000_000 - 1024 - 512
    before = bench.pool.available
    for _ in range(6):
        bench.append(b"x" * 80)
    assert bench.pool.available == before - 488, "it grew to batch.size"
    before = bench.pool.available
    bench.append(b"x" * 3000, partition=1)
    assert 4000 < before - bench.pool.available < 4200


def test_A2_without_memory_a_ticket_and_with_it_the_record_goes_in() -> None:
    bench = Bench(memory=2100)
    bench.append(b"x" * 500)
    ticket = bench.accumulator.append(bench.record(b"x" * 900), 0)
    assert isinstance(ticket, Ticket)
    (batch,) = bench.drain()
    bench.accumulator.off_the_wire(batch)
    bench.accumulator.complete(batch, 0, -1)
    assert ticket.promise.done
    delivery = bench.accumulator.append(bench.record(b"x" * 900), 5, ticket)
    assert isinstance(delivery, Delivery)
    bench.accumulator.adopt()
    assert bench.queue(0).batches[0].created_ms == 5, "A6: the wait does not age the batch"
    assert 0 <= bench.pool.available < 100


def test_A2_a_ticket_is_not_used_when_another_thread_opened_a_batch() -> None:
    bench = Bench(memory=4500)
    blocker = [bench.append(b"x" * 900, partition=1), bench.append(b"x" * 900, partition=2)]
    ticket = bench.accumulator.append(bench.record(), 0)
    assert isinstance(ticket, Ticket)
    bench.accumulator.fail(bench.queue(1).batches[0], KafkaError("gone"))
    bench.accumulator.fail(bench.queue(2).batches[0], KafkaError("gone"))
    assert all(delivery.done() for delivery in blocker)
    bench.append(b"of another thread")
    assert isinstance(bench.accumulator.append(bench.record(), 0, ticket), Delivery)
    bench.pool.cancel(ticket)
    assert bench.pool.available == 4500 - 1024 - 512


def test_A7_a_closed_accumulator_takes_nothing_more() -> None:
    bench = Bench()
    bench.append()
    bench.accumulator.close(closed)
    assert bench.accumulator.appender.send("t", b"v", None, 0, None, None, None) is None
    with pytest.raises(ClosedError):
        bench.append()


def test_K5_a_record_too_large_is_refused_before_it_costs_anything() -> None:
    bench = Bench()
    with pytest.raises(RecordTooLargeError, match=r"max\.request\.size=5000"):
        bench.append(b"x" * 5000)
    small = Bench(memory=2000)
    with pytest.raises(RecordTooLargeError, match=r"buffer\.memory=2000"):
        small.append(b"x" * 3000)
    assert bench.pool.available == 1_000_000


def test_a_topic_or_partition_that_metadata_does_not_know_is_left_to_the_caller() -> None:
    bench = Bench()
    assert bench.accumulator.append(bench.record(partition=9), 0) is None
    assert bench.accumulator.append(ToSend("nowhere", None, None, b"", (), 0, None), 0) is None


# Ready


def test_A8_linger_full_flush_close_and_need_of_memory_make_a_partition_due() -> None:
    lingering = Bench()
    lingering.append()
    ready = lingering.accumulator.ready(9)
    assert (ready.nodes, ready.next_check_ms) == ([], 10)
    assert set(lingering.accumulator.ready(10).nodes) == {1}
    lingering.accumulator.flushes = 1
    assert set(lingering.accumulator.ready(0).nodes) == {1}

    full = Bench()
    for _ in range(12):
        full.append(b"x" * 90)
    assert set(full.accumulator.ready(0).nodes) == {1}

    ended = Bench()
    ended.append()
    ended.accumulator.close(closed)
    assert set(ended.accumulator.ready(0).nodes) == {1}

    exhausted = Bench(memory=1600)
    exhausted.append()
    assert isinstance(exhausted.accumulator.append(exhausted.record(partition=1), 0), Ticket)
    assert set(exhausted.accumulator.ready(0).nodes) == {1}


def test_A9_a_partition_without_a_leader_is_named_and_keeps_its_data() -> None:
    bench = Bench()
    bench.append(partition=3)
    ready = bench.accumulator.ready(1000)
    assert (ready.nodes, ready.leaderless, ready.next_check_ms) == ([], {"t"}, NEVER_MS)
    bench.accumulator.refresh(a_snapshot((1, 1, 2, 2)), {"t"})
    assert set(bench.accumulator.ready(1000).nodes) == {2}


def test_A10_a_retry_backs_off_unless_there_is_a_new_leader() -> None:
    bench = Bench()
    bench.append()
    (batch,) = bench.drain(now_ms=10)
    batch.leader_epoch = 0
    batch.retry_at_ms = 110
    bench.accumulator.off_the_wire(batch)
    bench.accumulator.put_back(batch)
    assert bench.accumulator.ready(109).next_check_ms == 110
    assert bench.drain(now_ms=109) == []
    bench.accumulator.refresh(a_snapshot(epoch=1), {"t"})
    assert bench.drain(now_ms=109) == [batch]


def test_A11_others_of_the_same_leader_ride_along() -> None:
    bench = Bench()
    bench.append(partition=0, now_ms=0)
    bench.append(partition=1, now_ms=9)
    bench.append(partition=2, now_ms=9)
    assert [batch.tp.partition for batch in bench.drain(now_ms=10)] == [0, 1]


def test_A8_the_end_of_a_back_off_counts_even_when_the_leader_has_something_else_due() -> None:
    bench = Bench(linger_ms=0)
    bench.append(partition=1)
    (retried,) = bench.drain()
    bench.accumulator.off_the_wire(retried)
    retried.retry_at_ms = 100
    bench.accumulator.put_back(retried)
    bench.append(partition=0)
    ready = bench.accumulator.ready(0)
    assert set(ready.nodes) == {1}
    assert ready.next_check_ms == 100


def test_P5_a_topic_that_metadata_lost_sight_of_still_has_its_sticky_partition() -> None:
    bench = Bench()
    topic = bench.accumulator.topics["t"]
    bench.accumulator.refresh(ClusterSnapshot(), {"t"})
    assert topic.count == 0
    assert bench.accumulator.next_sticky(topic, 0) in range(4)


# Drain


def test_A13_one_batch_per_partition_up_to_the_request_size_and_a_fair_start() -> None:
    bench = Bench(batch_size=2000, max_request_size=2500)
    for partition in (0, 1):
        for _ in range(3):
            bench.append(b"x" * 1900, partition=partition)
    drained = [bench.drain() for _ in range(4)]
    assert [[batch.tp.partition for batch in batches] for batches in drained] == [[0], [1], [0], [1]]


def test_A13_an_open_batch_that_is_due_takes_its_turn_beside_a_partition_that_fills_every_request() -> None:
    bench = Bench(batch_size=2000, max_request_size=2000)
    for _ in range(5):
        bench.append(b"x" * 1900, partition=0)
    bench.append(partition=1)
    drained = [bench.drain(now_ms=now_ms) for now_ms in (9, 10, 11, 12)]
    assert [[batch.tp.partition for batch in batches] for batches in drained] == [[0], [0], [1], [0]]


def test_A13_a_single_batch_larger_than_a_request_is_sent_alone() -> None:
    bench = Bench(batch_size=4000, max_request_size=4500)
    bench.append(b"x" * 3900, partition=0)
    bench.append(b"x" * 3900, partition=1)
    assert [len(bench.drain(now_ms=10)), len(bench.drain(now_ms=10))] == [1, 1]


def test_A15_a_drained_batch_is_sealed_and_whole() -> None:
    bench = Bench(codec=Codec.GZIP)
    bench.append(b"one")
    bench.append(b"two")
    (batch,) = bench.drain(now_ms=10)
    assert batch.data is not None
    assert [record.value for record in RecordBatch(memoryview(batch.data)).records()] == [b"one", b"two"]
    assert bench.queue(0).tail is None
    assert bench.queue(0).in_flight == [batch]


def test_B8_memory_comes_back_when_a_batch_cannot_be_made() -> None:
    class Unencodable(str):
        """Encoded once for the open batch, and once more for a batch of its own."""

        encoded = 0

        def encode(self, *_: object) -> bytes:
            self.encoded += 1
            if self.encoded > 1:
                raise MemoryError
            return b"name"

    bench = Bench()
    with pytest.raises(MemoryError):
        bench.accumulator.append(bench.record(bytes(1_000))._replace(headers=[(Unencodable("name"), b"value")]), 0)
    assert bench.pool.available == bench.pool.total
    assert bench.append() is not None


def test_A16_a_muted_partition_waits_without_being_looked_at_again() -> None:
    bench = Bench()
    bench.append()
    bench.accumulator.mute(bench.queue(0))
    ready = bench.accumulator.ready(1000)
    assert (ready.nodes, ready.next_check_ms) == ([], NEVER_MS)


def test_A4_a_full_batch_is_sealed_by_its_sender_and_not_drained_meanwhile() -> None:
    bench = Bench(codec=Codec.LZ4)
    values = [Random(n).randbytes(300) for n in range(8)]
    for value in values:
        bench.append(value)
    claimed = bench.accumulator.claim_full()
    assert claimed is bench.queue(0).batches[0]
    assert bench.drain(now_ms=0) == []
    claimed.compress()
    bench.accumulator.sealed(claimed)
    assert bench.drain(now_ms=0) == [claimed]


def test_a_batch_that_fails_while_it_is_being_sealed_leaves_no_bytes_behind() -> None:
    bench = Bench(codec=Codec.LZ4)
    for n in range(8):
        bench.append(Random(n).randbytes(300))
    claimed = bench.accumulator.claim_full()
    assert claimed is not None
    bench.accumulator.fail(claimed, KafkaError("late"))
    claimed.compress()
    bench.accumulator.sealed(claimed)
    assert claimed.data is None
    assert claimed.charged == 0


def test_A20_batches_are_put_back_in_the_order_of_their_first_drain() -> None:
    bench = Bench(batch_size=1)
    for number in range(4):
        bench.append(b"%d" % number)
    first, second, third = (bench.drain()[0] for _ in range(3))
    for batch in (third, first, second):
        bench.accumulator.off_the_wire(batch)
        bench.accumulator.put_back(batch)
    assert list(bench.queue(0).batches)[:3] == [first, second, third]
    assert len(bench.queue(0).batches) == 4


# Afterwards


def test_A18_only_old_batches_expire_wherever_they_are() -> None:
    bench = Bench()
    old_queued = bench.append(partition=1, now_ms=0)
    bench.append(partition=0, now_ms=0)
    (in_flight,) = (batch for batch in bench.drain(now_ms=10) if batch.tp.partition == 0)
    bench.append(partition=2, now_ms=500)
    assert list(bench.accumulator.expired(999)) == []
    expired = list(bench.accumulator.expired(1000))
    assert in_flight in expired
    assert len(expired) == 2
    for batch in expired:
        bench.accumulator.fail(batch, KafkaError("expired"))
    assert old_queued.done()
    assert list(bench.accumulator.expired(1001)) == []
    assert bench.accumulator.next_expiry_ms == 1500


def test_A19_memory_of_a_failed_batch_comes_back_when_its_request_ends() -> None:
    bench = Bench()
    bench.append()
    (batch,) = bench.drain(now_ms=10)
    bench.accumulator.fail(batch, KafkaError("expired"))
    assert bench.pool.available < 1_000_000
    bench.accumulator.off_the_wire(batch)
    bench.accumulator.off_the_wire(batch)
    assert bench.pool.available == 1_000_000


def test_A24_the_first_outcome_stands() -> None:
    bench = Bench()
    delivery = bench.append()
    (batch,) = bench.drain(now_ms=10)
    error = KafkaError("first")
    bench.accumulator.fail(batch, error)
    bench.accumulator.complete(batch, 5, -1)
    bench.accumulator.fail(batch, KafkaError("second"))
    assert delivery.exception() is error


def test_A25_callbacks_run_in_order_before_waiters_are_released_and_outside_the_lock() -> None:
    bench = Bench()
    called: list[int] = []
    deliveries = [bench.append(callback=lambda metadata, error: called.append(metadata.offset)) for _ in range(3)]
    (batch,) = bench.drain(now_ms=10)
    bench.accumulator.complete(batch, 40, -1)
    assert called == []
    assert not deliveries[0].done()
    for run in bench.deferred:
        run()
    assert called == [40, 41, 42]
    assert bench.settled == [batch]


def test_N10_a_callback_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    called: list[int] = []

    def angry(metadata: Any, error: Any) -> None:
        raise RuntimeError("angry")

    bench.append(callback=angry)
    bench.append(callback=lambda metadata, error: called.append(metadata.offset))
    (batch,) = bench.drain(now_ms=10)
    bench.accumulator.complete(batch, 0, -1)
    bench.deferred[0]()
    assert called == [1]
    assert "angry" in caplog.text


def test_K8_the_brokers_timestamp_replaces_the_senders() -> None:
    bench = Bench()
    delivery = bench.append()
    (batch,) = bench.drain(now_ms=10)
    bench.accumulator.complete(batch, 0, 999)
    assert delivery.result().timestamp == 999


def test_P6_leaders_that_take_nothing_are_left_out() -> None:
    bench = Bench(availability_timeout_ms=100)
    topic = bench.accumulator.topics["t"]
    bench.accumulator.note_readiness(1, False, 0)
    assert {bench.accumulator.next_sticky(topic, 50) for _ in range(30)} == {0, 1, 2}
    assert {bench.accumulator.next_sticky(topic, 101) for _ in range(30)} == {2}
    bench.accumulator.note_readiness(1, True, 120)
    assert {bench.accumulator.next_sticky(topic, 130) for _ in range(30)} == {0, 1, 2}


def test_M18_the_compression_estimate_is_quick_to_fear_and_slow_to_hope() -> None:
    topic = Bench().accumulator.topics["t"]
    topic.observe_compression(0.5)
    assert topic.compression_ratio == pytest.approx(0.995)
    topic.compression_ratio = 0.3
    topic.observe_compression(0.32)
    assert topic.compression_ratio == pytest.approx(0.35)
    topic.observe_compression(0.9)
    assert topic.compression_ratio == pytest.approx(0.9)


def test_D3_a_topic_that_is_not_wanted_any_more_is_dropped_once_nothing_is_queued() -> None:
    bench = Bench()
    bench.append()
    assert bench.accumulator.refresh(a_snapshot(), set()) == []
    (batch,) = bench.drain(now_ms=20)
    assert bench.accumulator.refresh(a_snapshot(), set()) == [], "it waits for its answer"
    bench.accumulator.off_the_wire(batch)
    bench.accumulator.complete(batch, 0, -1)
    topic = bench.accumulator.topics["t"]
    assert bench.accumulator.refresh(a_snapshot(), {"t"}) == []
    assert bench.accumulator.refresh(a_snapshot(), set()) == [topic]
    assert bench.accumulator.append(bench.record(), 0) is None


# The appender


def test_the_appender_wakes_the_engine_only_for_what_is_due_before_it_looks_by_itself() -> None:
    bench = Bench()
    send = bench.accumulator.appender.send
    assert send("t", b"v", None, 0, 1, None, None) is not None
    assert bench.woken == [False], "it sleeps for ever, and this one lingers"
    assert send("t", b"v", None, 1, 1, None, None) is not None
    assert bench.woken == [False], "it looks in time for that one too"
    for _ in range(12):
        send("t", b"x" * 90, None, 0, 1, None, None)
    assert bench.woken == [False, True], "a full one is due at once, and told of once"
    assert not bench.accumulator.going_to_sleep(), "something was opened since it looked"
    bench.accumulator.adopt()
    assert bench.accumulator.going_to_sleep()
    for _ in range(12):
        send("t", b"x" * 90, None, 1, 1, None, None)
    assert bench.woken == [False, True], "what could be sent and was not waits for an event"


@pytest.mark.parametrize(
    "arguments",
    [
        (b"t", b"v", None, None, None, None, None),
        ("t", bytearray(b"v"), None, None, None, None, None),
        ("t", "\u00fc", None, None, None, None, None),
        ("t", b"v", "\u00fc", None, None, None, None),
        ("t", b"v", None, True, None, None, None),
        ("t", b"v", None, -1, None, None, None),
        ("t", b"v", None, 2**40, None, None, None),
        ("t", b"v", None, 0, -1, None, None),
        ("t", b"v", None, 0, 1.0, None, None),
        ("t", b"v", None, 0, 1, {"h": b"v"}, None),
        ("nowhere", b"v", None, 0, 1, None, None),
        ("t", b"v" * 1000, None, 0, 1, None, None),
    ],
)
def test_the_appender_leaves_to_its_caller_what_needs_a_closer_look(arguments: tuple[Any, ...]) -> None:
    bench = Bench()
    assert bench.accumulator.appender.send(*arguments) is None
    assert not bench.accumulator.appender.has_news
    assert bench.pool.available == bench.pool.total


def test_the_appender_leaves_records_to_serializers_and_partitioners() -> None:
    bench = Bench()
    appender = bench.accumulator.appender
    appender.plain_keys = False
    assert appender.send("t", b"v", b"k", 0, 1, None, None) is None
    assert appender.send("t", b"v", None, 0, 1, None, None) is not None
    appender.plain_values = False
    assert appender.send("t", b"v", None, 0, 1, None, None) is None
    choosing = Bench(partitioning=Partitioning(lambda topic, key, count: 0, ignore_keys=False))
    assert choosing.accumulator.appender.send("t", b"v", None, None, 1, None, None) is None
    assert choosing.accumulator.appender.send("t", b"v", None, 0, 1, None, None) is not None


def test_threads_that_append_while_batches_are_drained_lose_and_repeat_nothing() -> None:
    """Without the lock, where compiled: what a call does in one piece is met half done by nobody."""
    bench = Bench(batch_size=300, memory=50_000_000)
    senders, each = 3, 3000
    sent: list[list[Delivery]] = [[] for _ in range(senders)]

    def send(number: int) -> None:
        for count in range(each):
            delivery = bench.accumulator.appender.send("t", b"%d-%d" % (number, count), None, count % 3, 1, None, callback)
            assert delivery is not None
            sent[number].append(delivery)

    def callback(metadata: Any, error: Any) -> None:
        called.append(metadata)

    called: list[Any] = []
    drained: list[ProducerBatch] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or bench.accumulator.appender.has_news or bench.accumulator.incomplete:
            with bench.lock:  # As the engine's thread has it; the appender waits for it only where it needs it.
                for node in bench.accumulator.ready(1000).nodes:
                    for batch in bench.accumulator.drain(node, 1000, None):
                        drained.append(batch)
                        offset = sum(other.records_count for other in drained if other.tp == batch.tp) - batch.records_count
                        assert batch.data is not None
                        batch.record_errors = dict(enumerate(RecordBatch(memoryview(batch.data)).records()))  # type: ignore[arg-type]
                        bench.accumulator.complete(batch, offset, -1)
    finally:
        sys.setswitchinterval(interval)
    for deferred in bench.deferred:
        deferred()
    seen: dict[int, list[int]] = {number: [] for number in range(senders)}
    for batch in drained:
        for index in range(batch.records_count):
            number, count = batch.record_errors[index].value.split(b"-")  # type: ignore[attr-defined]
            seen[int(number)].append(int(count))
    assert all(sorted(counts) == list(range(each)) for counts in seen.values())
    for number in range(senders):
        for partition in range(3):
            of_partition = [count for count in seen[number] if count % 3 == partition]
            assert of_partition == sorted(of_partition), "in order"
    assert len(called) == senders * each
    for batch in bench.settled:
        bench.accumulator.settle(batch)
    assert bench.pool.available == bench.pool.total

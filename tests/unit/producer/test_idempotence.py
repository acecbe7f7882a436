"""Section 14's decision table, and what it does to a partition."""

from __future__ import annotations

from random import Random

import pytest

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Sleep
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, Persisted, UnsupportedVersionError
from levada.producer.append.partition_queue import PartitionQueue, TopicQueues
from levada.producer.append.producer_batch import Final, ProducerBatch
from levada.producer.send.idempotence import Idempotence, Verdict
from levada.producer.send.sequences import MAX_EPOCH, ProducerIdentity
from levada.protocol.messages.init_producer_id import InitProducerIdResponse
from levada.record.batch import RecordBatch
from levada.record.builder import RecordBatchBuilder

OUT_OF_ORDER, UNKNOWN_PRODUCER_ID = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID
NO_LOG_START = -1


@pytest.fixture
def manager() -> Idempotence:
    manager = Idempotence(backoff=ExponentialBackoff(100, 1000, Random(1)))
    manager.identity = ProducerIdentity(7, 0)
    return manager


@pytest.fixture
def queue() -> PartitionQueue:
    topic = TopicQueues("t", Random(1), 100)
    topic.resize(2)
    return topic.partitions[0]


def a_batch(queue: PartitionQueue, records: int = 1) -> ProducerBatch:
    builder = RecordBatchBuilder()
    for _ in range(records):
        builder.append(0, None, b"v", ())
    batch = ProducerBatch(queue, builder, charged=0, created_ms=0)
    batch.seal()
    return batch


def sent(manager: Idempotence, queue: PartitionQueue, count: int, records: int = 10) -> list[ProducerBatch]:
    """Batches that were numbered and are on the wire."""
    batches = [a_batch(queue, records) for _ in range(count)]
    for batch in batches:
        manager.number(batch)
        batch.on_the_wire = True
        queue.in_flight.append(batch)
    return batches


def came_back(*batches: ProducerBatch) -> None:
    for batch in batches:
        batch.on_the_wire = False


def finished(manager: Idempotence, batch: ProducerBatch, base_offset: int = 0) -> None:
    came_back(batch)
    manager.acked(batch, base_offset)
    batch.queue.in_flight.remove(batch)
    batch.finish(Final.SUCCEEDED)


def numbers(batch: ProducerBatch) -> tuple[int, int, int]:
    assert batch.data is not None
    view = RecordBatch(memoryview(batch.data))
    view.verify_crc()
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return view.producer_id, view.producer_epoch, view.base_sequence


def test_A15_numbers_stand_in_the_batch_and_count_records(manager: Idempotence, queue: PartitionQueue) -> None:
    assert [numbers(batch) for batch in sent(manager, queue, 3)] == [(7, 0, 0), (7, 0, 10), (7, 0, 20)]


def test_I20_45_an_earlier_batch_is_still_being_retried(manager: Idempotence, queue: PartitionQueue) -> None:
    _, second = sent(manager, queue, 2)
    assert manager.decide(second, OUT_OF_ORDER, NO_LOG_START) is Verdict.RETRY
    assert not queue.sequences.wants_bump


def test_I20_45_though_it_is_the_next_one_there_is_a_gap(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    finished(manager, first)
    assert manager.decide(second, OUT_OF_ORDER, NO_LOG_START) is Verdict.BUMP
    assert queue.sequences.wants_bump


def test_M_B4_45_behind_what_was_acknowledged_is_not_called_a_success(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    finished(manager, second)
    assert manager.decide(first, OUT_OF_ORDER, NO_LOG_START) is Verdict.FAIL


def test_I20_45_right_after_an_unresolved_batch_proves_the_gap(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second, third = sent(manager, queue, 3)
    manager.gave_up(first, Persisted.UNKNOWN)
    queue.in_flight.remove(first)
    assert manager.decide(third, OUT_OF_ORDER, NO_LOG_START) is Verdict.RETRY
    assert not queue.sequences.wants_bump
    assert manager.decide(second, OUT_OF_ORDER, NO_LOG_START) is Verdict.BUMP


def test_I20_59_without_a_log_start_says_nothing(manager: Idempotence, queue: PartitionQueue) -> None:
    (batch,) = sent(manager, queue, 1)
    assert manager.decide(batch, UNKNOWN_PRODUCER_ID, NO_LOG_START) is Verdict.RETRY
    assert not queue.sequences.wants_bump


def test_I20_TR47_59_after_retention_is_no_loss(manager: Idempotence, queue: PartitionQueue) -> None:
    (batch,) = sent(manager, queue, 1)
    assert manager.decide(batch, UNKNOWN_PRODUCER_ID, 100) is Verdict.BUMP


def test_I11_a_bump_waits_until_nothing_is_on_the_wire_and_renumbers_from_0(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second, third = sent(manager, queue, 3)
    finished(manager, first)
    came_back(second)
    manager.decide(second, OUT_OF_ORDER, NO_LOG_START)
    assert manager.recover() == []
    assert numbers(second) == (7, 0, 10)
    assert not manager.may_drain(second)
    came_back(third)
    assert manager.recover() == []
    assert manager.identity == (7, 1)
    assert [numbers(second), numbers(third)] == [(7, 1, 0), (7, 1, 10)]
    assert [manager.may_drain(second), manager.may_drain(third)] == [True, False]


def test_M_B6_what_may_be_written_keeps_its_numbers_and_is_handed_back_to_fail(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    came_back(first, second)
    second.may_be_persisted = True
    manager.decide(first, OUT_OF_ORDER, NO_LOG_START)
    assert manager.recover() == [second]
    assert [numbers(first), numbers(second)] == [(7, 1, 0), (7, 0, 10)]
    assert queue.sequences.next == 10


def test_I11_other_partitions_follow_when_their_own_batches_are_done(manager: Idempotence, queue: PartitionQueue) -> None:
    other = queue.topic.partitions[1]
    (elsewhere,) = sent(manager, other, 1)
    (batch,) = sent(manager, queue, 1)
    came_back(batch)
    manager.decide(batch, OUT_OF_ORDER, NO_LOG_START)
    manager.recover()
    assert not manager.may_drain(a_batch(other))
    finished(manager, elsewhere)
    assert manager.may_drain(a_batch(other))
    (following,) = sent(manager, other, 1)
    assert numbers(following) == (7, 1, 0)


def test_I16_a_sequence_begins_with_one_batch_in_flight(manager: Idempotence, queue: PartitionQueue) -> None:
    assert manager.may_drain(a_batch(queue))
    (first,) = sent(manager, queue, 1)
    assert not manager.may_drain(a_batch(queue)), "the broker would take it though the first was refused"
    finished(manager, first)
    sent(manager, queue, 1)
    assert manager.may_drain(a_batch(queue))


def test_I11_the_last_epoch_is_followed_by_a_new_id(manager: Idempotence, queue: PartitionQueue) -> None:
    manager.identity = ProducerIdentity(7, MAX_EPOCH)
    (batch,) = sent(manager, queue, 1)
    came_back(batch)
    manager.decide(batch, OUT_OF_ORDER, NO_LOG_START)
    assert manager.recover() == []
    assert manager.needs_identity
    manager.identity = ProducerIdentity(8, 0)
    manager.recover()
    assert numbers(batch)[0] == 8
    assert numbers(batch)[2] == 0


def test_I12_a_later_success_resolves_an_unknown_outcome(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    manager.gave_up(first, Persisted.UNKNOWN)
    queue.in_flight.remove(first)
    assert not manager.may_drain(a_batch(queue)), "nothing new until it is clear"
    finished(manager, second)
    assert manager.recover() == []
    assert manager.identity == (7, 0)
    assert manager.may_drain(a_batch(queue))


def test_I12_without_one_the_epoch_is_bumped(manager: Idempotence, queue: PartitionQueue) -> None:
    (batch,) = sent(manager, queue, 1)
    manager.gave_up(batch, Persisted.UNKNOWN)
    queue.in_flight.remove(batch)
    manager.recover()
    assert manager.identity == (7, 1)
    (following,) = sent(manager, queue, 1)
    assert numbers(following) == (7, 1, 0)


def test_TR44_numbers_of_a_batch_that_was_not_written_are_used_again(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    finished(manager, first)
    manager.gave_up(second, Persisted.NO)
    queue.in_flight.remove(second)
    assert queue.sequences.next == 10
    assert manager.recover() == []
    assert manager.identity == (7, 0)


def test_TR44_unless_others_are_behind_it(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    came_back(first, second)
    manager.gave_up(first, Persisted.NO)
    queue.in_flight.remove(first)
    manager.recover()
    assert numbers(second) == (7, 1, 0)


def test_I9_a_retried_batch_goes_alone_until_the_gap_is_closed(manager: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(manager, queue, 2)
    came_back(first, second)
    assert [manager.may_drain(first), manager.may_drain(second)] == [True, False]
    finished(manager, first)
    assert manager.may_drain(second)


# InitProducerId


def test_I3_the_id_is_asked_for_until_it_comes(manager: Idempotence) -> None:
    manager.identity = ProducerIdentity()
    flow = manager.initialize()
    assert isinstance(next(flow), Call)
    assert isinstance(flow.throw(DisconnectError("gone")), Sleep)
    assert "gone" in manager.waiting_for
    assert isinstance(next(flow), Call)
    assert isinstance(flow.send(InitProducerIdResponse(error_code=14)), Sleep)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in manager.waiting_for
    next(flow)
    with pytest.raises(StopIteration):
        flow.send(InitProducerIdResponse(error_code=0, producer_id=42, producer_epoch=3))
    assert manager.identity == (42, 3)


def test_I3_an_old_broker_is_an_error_with_the_way_out(manager: Idempotence) -> None:
    manager.identity = ProducerIdentity()
    flow = manager.initialize()
    next(flow)
    with pytest.raises(StopIteration):
        flow.throw(UnsupportedVersionError("no"))
    assert manager.error is not None
    assert "enable.idempotence=false" in str(manager.error)
    assert not manager.needs_identity


@pytest.fixture
def transactional() -> Idempotence:
    manager = Idempotence(backoff=ExponentialBackoff(100, 1000, Random(1)), may_send=lambda batch: True)
    manager.identify(ProducerIdentity(7, 3))
    return manager


def test_I11_the_coordinator_alone_gives_a_transactional_producer_its_identity(transactional: Idempotence) -> None:
    transactional.identity = ProducerIdentity()
    assert not transactional.needs_identity


def test_I9_batches_of_a_transaction_are_marked_as_such(transactional: Idempotence, queue: PartitionQueue) -> None:
    (batch,) = sent(transactional, queue, 1)
    assert batch.data is not None
    view = RecordBatch(memoryview(batch.data))
    view.verify_crc()
    assert view.is_transactional
    assert numbers(batch) == (7, 3, 0)


def test_T4_a_partition_that_is_not_in_the_transaction_yet_is_not_drained(queue: PartitionQueue) -> None:
    asked: list[ProducerBatch] = []

    def may_send(batch: ProducerBatch) -> bool:
        asked.append(batch)
        return False

    manager = Idempotence(backoff=ExponentialBackoff(100, 1000, Random(1)), may_send=may_send)
    batch = a_batch(queue)
    assert not manager.may_drain(batch)
    assert asked == [], "nothing is announced before there is a producer id to announce it with"
    manager.identify(ProducerIdentity(7, 3))
    assert not manager.may_drain(batch)
    assert asked == [batch]


def test_I20_45_in_a_transaction_a_gap_fails_the_batch_and_an_earlier_retry_does_not(
    transactional: Idempotence, queue: PartitionQueue
) -> None:
    first, second = sent(transactional, queue, 2)
    assert transactional.decide(second, OUT_OF_ORDER, NO_LOG_START) is Verdict.RETRY
    assert transactional.decide(first, OUT_OF_ORDER, NO_LOG_START) is Verdict.FAIL
    assert not queue.sequences.wants_bump


def test_I20_59_in_a_transaction_retention_restarts_the_numbers_under_the_same_epoch(
    transactional: Idempotence, queue: PartitionQueue
) -> None:
    first, second = sent(transactional, queue, 2)
    finished(transactional, first, base_offset=5)
    assert transactional.decide(second, UNKNOWN_PRODUCER_ID, 100) is Verdict.BUMP
    came_back(second)
    assert transactional.recover() == []
    assert numbers(second) == (7, 3, 0)
    assert transactional.identity == (7, 3)


def test_I20_59_in_a_transaction_otherwise_fails_the_batch(transactional: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(transactional, queue, 2)
    finished(transactional, first, base_offset=500)
    assert transactional.decide(second, UNKNOWN_PRODUCER_ID, NO_LOG_START) is Verdict.RETRY
    assert transactional.decide(second, UNKNOWN_PRODUCER_ID, 100) is Verdict.FAIL


def test_I20_numbers_of_a_failed_batch_go_to_the_next_one_or_are_lost(transactional: Idempotence, queue: PartitionQueue) -> None:
    first, second = sent(transactional, queue, 2)
    transactional.gave_up(second, Persisted.NO)
    assert (queue.sequences.next, transactional.lost_numbers) == (10, False)
    transactional.gave_up(first, Persisted.UNKNOWN)
    assert transactional.lost_numbers
    assert transactional.recover() == []
    assert transactional.identity == (7, 3), "only the coordinator raises the epoch"
    transactional.identify(ProducerIdentity(7, 4))
    assert not transactional.lost_numbers
    transactional.number(third := a_batch(queue))
    assert numbers(third) == (7, 4, 0)

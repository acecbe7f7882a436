"""Clients and brokers with one deliberate fault each. The history checker must find every fault.

A mutant is a function that patches a class for a test, with the checks that must find the fault and the settings of its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from chaos_plan import Plan, draw_records
from levada.broker.cluster.cluster import Cluster
from levada.broker.log.producer_state import ProducerStates
from levada.broker.node.state import BrokerState
from levada.broker.replication.partition import Appended, Partition
from levada.consumer.fetch import fetch_response
from levada.consumer.fetch.fetch_buffer import CompletedFetch
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError, not_written
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.record_accumulator import RecordAccumulator
from levada.producer.send.failures import Failures
from levada.producer.send.sender import Sender
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """A mutant. finds: checks that must each find the fault in one of the runs. settings: of the producer. draw: draws its plans."""

    break_it: Callable[[Patch], None]
    finds: frozenset[str]
    settings: Mapping[str, Any]
    draw: Callable[..., Plan]

    @property
    def name(self) -> str:
        return self.break_it.__name__


MUTANTS: list[Mutant] = []


def mutant(
    *finds: str, draw: Callable[..., Plan] = draw_records, **settings: Any
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a function to MUTANTS."""

    def add(break_it: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS.append(Mutant(break_it, frozenset(finds), settings, draw))
        return break_it

    return add


class Every:
    """Returns True at every n-th call."""

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._calls = 0

    def __call__(self) -> bool:
        self._calls += 1
        return self._calls % self._nth == 0


# Clients


@mutant("K2", enable_idempotence=False)
def a_client_that_sends_again_without_idempotence(patch: Patch) -> None:
    """It is only a setting."""


@mutant("K3", enable_idempotence=False)
def a_client_that_sends_a_refused_batch_again_behind_later_ones(patch: Patch) -> None:
    """As it does with several requests in flight, when nothing keeps the order."""


@mutant("K2")
def a_client_that_gives_new_numbers_after_an_unknown_outcome(patch: Patch) -> None:
    retry = Sender._retry

    def number_anew(self: Sender, batch: ProducerBatch, *arguments: Any) -> None:
        if batch.may_be_persisted and self._idempotence is not None:
            batch.may_be_persisted = False
            self._idempotence._want_bump(batch.queue)
        retry(self, batch, *arguments)

    patch.setattr(Sender, "_retry", number_anew)


@mutant("K5", request_timeout_ms=2000, delivery_timeout_ms=2100)
def a_client_that_says_not_persisted_of_what_it_does_not_know(patch: Patch) -> None:
    end = Failures._end

    def swear(self: Failures, batch: ProducerBatch, error: KafkaError, *arguments: Any) -> None:
        end(self, batch, not_written(error), *arguments)

    patch.setattr(Failures, "_end", swear)


@mutant("K1")
def a_client_that_acknowledges_before_the_answer(patch: Patch) -> None:
    send = Sender._send

    def hasty(self: Sender, node: int, batches: Mapping[ProducerBatch, bytearray], now_ms: int) -> None:
        send(self, node, batches, now_ms)
        for batch in batches:
            self._accumulator.complete(batch, -1, -1)

    patch.setattr(Sender, "_send", hasty)


@mutant("K1")
def a_client_that_drops_expired_batches_and_says_ok(patch: Patch) -> None:
    def expire(self: Failures, batch: ProducerBatch) -> None:
        self._accumulator._unqueue(batch)
        self._accumulator.complete(batch, -1, -1)

    patch.setattr(Failures, "expire", expire)


@mutant("K4")
def a_client_that_tells_wrong_offsets(patch: Patch) -> None:
    complete, often = RecordAccumulator.complete, Every(9)

    def tell_next(self: RecordAccumulator, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        complete(self, batch, base_offset + 1 if often() else base_offset, log_append_time_ms)

    patch.setattr(RecordAccumulator, "complete", tell_next)


@mutant("K12")
def a_client_that_forgets_a_callback(patch: Patch) -> None:
    call_back, often = RecordAccumulator._call_back, Every(5)

    def forget(self: RecordAccumulator, batch: ProducerBatch) -> None:
        if often():
            batch.callbacks = []
        call_back(self, batch)

    patch.setattr(RecordAccumulator, "_call_back", forget)


@mutant("K1")
def a_reader_that_skips_a_batch(patch: Patch) -> None:
    often = Every(2)

    def skip(state: Any, generation: int, offset: int, records: Any, *rest: Any) -> Any:
        batches = list(read_batches(records))
        skipped = batches[0].size_bytes if often() and len(batches) > 1 else 0
        return CompletedFetch(state, generation, offset, records[skipped:], *rest)

    patch.setattr(fetch_response, "CompletedFetch", skip)


# Brokers


@mutant("K1")
def a_broker_that_forgets_an_append(patch: Patch) -> None:
    append, often = Partition.append, Every(11)

    def forget(self: Partition, data: Any, now_ms: int, **options: Any) -> Appended:
        if often():
            return Appended(self.log.end_offset, -1)
        return append(self, data, now_ms, **options)

    patch.setattr(Partition, "append", forget)


@mutant("K2")
def a_broker_that_forgets_producers_with_each_election(patch: Patch) -> None:
    move = Cluster.move_leader

    def move_and_forget(self: Cluster, partition: Partition, node_id: int, **options: Any) -> None:
        partition.producers.forget_all()
        move(self, partition, node_id, **options)

    patch.setattr(Cluster, "move_leader", move_and_forget)


@mutant("K2")
def a_broker_that_appends_duplicates(patch: Patch) -> None:
    check = ProducerStates.check

    def take(self: ProducerStates, batch: RecordBatch) -> None:
        check(self, batch)

    patch.setattr(ProducerStates, "check", take)


@mutant("K2")
def a_broker_that_does_not_look_at_sequences(patch: Patch) -> None:
    patch.setattr(ProducerStates, "check", lambda self, batch: None)


@mutant("K4")
def a_broker_that_answers_a_duplicate_with_another_place(patch: Patch) -> None:
    check = ProducerStates.check

    def misplace(self: ProducerStates, batch: RecordBatch) -> Any:
        known = check(self, batch)
        return known and known._replace(base_offset=known.base_offset + 1)

    patch.setattr(ProducerStates, "check", misplace)


@mutant("K1", "K4")
def a_broker_that_loses_its_last_batch_with_an_election(patch: Patch) -> None:
    move = Cluster.move_leader

    def move_and_lose(self: Cluster, partition: Partition, node_id: int, **options: Any) -> None:
        move(self, partition, node_id, lose_from=max(partition.log.end_offset - 1, 0))

    patch.setattr(Cluster, "move_leader", move_and_lose)


@mutant("K4")
def a_broker_that_answers_wrong_offsets(patch: Patch) -> None:
    append, often = Partition.append, Every(7)

    def misplace(self: Partition, data: Any, now_ms: int, **options: Any) -> Appended:
        appended = append(self, data, now_ms, **options)
        return appended._replace(base_offset=appended.base_offset + 3) if often() else appended

    patch.setattr(Partition, "append", misplace)


@mutant("K3")
def a_broker_that_swaps_two_batches(patch: Patch) -> None:
    """One batch is held back, and appended behind the next one of its partition."""
    append, often = Partition.append, Every(6)
    held: dict[Partition, Any] = {}

    def swap(self: Partition, data: Any, now_ms: int, **options: Any) -> Appended:
        if self not in held and often():
            held[self] = bytes(data)
            return Appended(-1, -1)
        late = held.pop(self, None)
        with pytest.MonkeyPatch.context() as unchecked:
            if late is not None:
                unchecked.setattr(ProducerStates, "check", lambda states, batch: None)
            appended = append(self, data, now_ms, **options)
            if late is not None:
                append(self, bytearray(late), now_ms, **options)
        return appended

    patch.setattr(Partition, "append", swap)


@mutant("K5")
def a_broker_that_appends_and_says_it_did_not(patch: Patch) -> None:
    append, often = Partition.append, Every(9)

    def append_and_refuse(self: Partition, data: Any, now_ms: int, **options: Any) -> Appended:
        appended = append(self, data, now_ms, **options)
        if often():
            raise BrokerError("not appended, says the broker", code=ErrorCode.INVALID_TIMESTAMP)
        return appended

    patch.setattr(Partition, "append", append_and_refuse)


@mutant("K4")
def a_broker_that_appends_to_another_partition(patch: Patch) -> None:
    lead, often = BrokerState.lead_partition, Every(7)

    def confuse(self: BrokerState, topic: Any, index: int) -> Partition:
        return lead(self, topic, 1 - index if often() else index)

    patch.setattr(BrokerState, "lead_partition", confuse)


@mutant("K1")
def a_broker_that_deletes_records_too_early(patch: Patch) -> None:
    append = Partition.append

    def append_and_delete(self: Partition, data: Any, now_ms: int, **options: Any) -> Appended:
        appended = append(self, data, now_ms, **options)
        self.log.advance_start(self.log.end_offset - 20)
        return appended

    patch.setattr(Partition, "append", append_and_delete)

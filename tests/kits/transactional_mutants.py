"""Clients and brokers whose transactions are broken on purpose, one way each; see mutants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from chaos_plan import draw_transactions
from levada.broker.apis import SERVED
from levada.broker.apis.data import fetch
from levada.broker.apis.transactions import end_txn
from levada.broker.coordinators.transactions import end_markers
from levada.broker.coordinators.transactions.transaction import EndMarkers, ProducerIdAndEpoch, Transaction
from levada.broker.coordinators.transactions.transactions import Transactions as Coordinator
from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.broker.node.state import BrokerState
from levada.broker.replication.replica import Replica
from levada.consumer.fetch.fetch_cursor import AbortedTransactions
from levada.errors import KafkaError
from levada.producer.transactions import requests
from levada.producer.transactions.manager import TransactionManager
from levada.producer.transactions.records import ProducerRecords
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.testing import Simulation
from levada.types import TopicPartition
from mutants import Every, Mutant, Patch

TRANSACTIONAL: list[Mutant] = []


def mutant(*finds: str, **settings: Any) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a function to TRANSACTIONAL."""

    def add(break_it: Callable[[Patch], None]) -> Callable[[Patch], None]:
        TRANSACTIONAL.append(Mutant(break_it, frozenset(finds), settings, draw_transactions))
        return break_it

    return add


# Clients


@mutant("K5")
def a_client_that_commits_when_told_to_abort(patch: Patch) -> None:
    end = requests.end
    patch.setattr(requests, "end", lambda transactional_id, ending: end(transactional_id, ending._replace(commits=True)))


@mutant("K1")
def a_client_that_aborts_when_told_to_commit(patch: Patch) -> None:
    end = requests.end
    patch.setattr(requests, "end", lambda transactional_id, ending: end(transactional_id, ending._replace(commits=False)))


@mutant("K7")
def a_client_that_commits_without_waiting_for_its_records(patch: Patch) -> None:
    def hurry(self: ProducerRecords) -> Iterator[Any]:
        return iter(())

    patch.setattr(ProducerRecords, "deliver", hurry)


@mutant("K7")
def a_client_that_commits_although_a_record_failed(patch: Patch) -> None:
    def ignore(self: TransactionManager, error: KafkaError) -> None: ...

    patch.setattr(TransactionManager, "failed", ignore)


@mutant("K1")
def a_client_that_says_committed_without_asking(patch: Patch) -> None:
    end, often = TransactionManager._end, Every(4)

    def pretend(self: TransactionManager, ending: requests.EndTxn | None) -> Any:
        return end(self, None if often() else ending)

    patch.setattr(TransactionManager, "_end", pretend)


@mutant("K5")
def a_reader_that_does_not_hide_aborted_records(patch: Patch) -> None:
    patch.setattr(AbortedTransactions, "hides", lambda self, batch: False)


@mutant("K5", "K6")
def a_reader_of_uncommitted_records_labelled_committed(patch: Patch) -> None:
    for name in ("consumer", "scan"):
        make = getattr(Simulation, name)

        def relabelled(self: Simulation, *arguments: Any, _make: Any = make, **settings: Any) -> Any:
            return _make(self, *arguments, **{**settings, "isolation_level": "read_uncommitted"})

        patch.setattr(Simulation, name, relabelled)


# Brokers


@mutant("K1")
def a_broker_that_answers_endtxn_and_writes_no_markers(patch: Patch) -> None:
    write, often = end_markers.write_end_markers, Every(5)

    def forget(state: BrokerState, markers: EndMarkers, now_ms: int) -> None:
        if often():
            state.cluster.transactions.complete(markers, now_ms)
        else:
            write(state, markers, now_ms)

    patch.setattr("levada.broker.apis.transactions.end_txn.write_end_markers", forget)


@mutant("K7")
def a_broker_that_loses_the_marker_of_one_partition(patch: Patch) -> None:
    write, often = end_markers._write_marker, Every(7)

    def lose(state: BrokerState, name: TopicPartition, marker: EndTransactionMarker, wall_ms: int) -> None:
        if not often():
            write(state, name, marker, wall_ms)

    patch.setattr(end_markers, "_write_marker", lose)


@mutant("K7")
def a_broker_that_writes_one_marker_of_the_other_kind(patch: Patch) -> None:
    write, often = end_markers._write_marker, Every(7)

    def confuse(state: BrokerState, name: TopicPartition, marker: EndTransactionMarker, wall_ms: int) -> None:
        write(state, name, marker._replace(committed=marker.committed != often()), wall_ms)

    patch.setattr(end_markers, "_write_marker", confuse)


@mutant("K1")
def a_broker_that_aborts_when_asked_to_commit(patch: Patch) -> None:
    write, often = end_markers.write_end_markers, Every(5)

    def abort(state: BrokerState, markers: EndMarkers, now_ms: int) -> None:
        write(state, markers._replace(committed=markers.committed and not often()), now_ms)

    patch.setattr("levada.broker.apis.transactions.end_txn.write_end_markers", abort)


@mutant("K5")
def a_broker_that_commits_when_asked_to_abort(patch: Patch) -> None:
    write = end_markers.write_end_markers

    def commit(state: BrokerState, markers: EndMarkers, now_ms: int) -> None:
        write(state, markers._replace(committed=True), now_ms)

    patch.setattr("levada.broker.apis.transactions.end_txn.write_end_markers", commit)


@mutant("K5")
def a_broker_that_ends_the_next_transaction_too(patch: Patch) -> None:
    """A commit is carried out again while the next transaction of the same producer is open, as if its request had come late."""
    handle = end_txn.handle

    def twice(call: Any) -> Any:
        answer = handle(call)
        request = call.request
        if request.committed and not answer.error_code:
            call.state.call_at(call.now_ms + 30, partial(_end_again, call, request.transactional_id))
        return answer

    patch.setitem(SERVED, EndTxnRequest.API_KEY, end_txn.API._replace(handle=twice))


def _end_again(call: Any, transactional_id: str, at_ms: int) -> None:
    coordinator: Coordinator = call.state.cluster.transactions
    found: Transaction = coordinator._named(transactional_id)
    if found.partitions:
        for name in found.partitions:
            epoch = call.state.cluster.transaction_coordinators.epoch_of(transactional_id)
            marker = EndTransactionMarker(*found.producer, True, epoch, False)
            end_markers._write_marker(call.state, name, marker, at_ms + call.state.wall_offset_ms)


@mutant("K7")
def a_broker_that_forgets_that_a_partition_is_in_the_transaction(patch: Patch) -> None:
    add, often = Transaction.add, Every(6)

    def forget(self: Transaction, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        add(self, () if often() else partitions, now_ms)

    patch.setattr(Transaction, "add", forget)


@mutant("K5")
def a_broker_that_does_not_list_aborted_transactions(patch: Patch) -> None:
    patch.setattr(fetch._Fetch, "_aborted", lambda self, partition, offset: [])


@mutant("K6")
def a_broker_that_ignores_the_last_stable_offset(patch: Patch) -> None:
    patch.setattr(Replica, "readable_end", lambda self, isolation_level: self.log.high_watermark)


@mutant("K1")
def a_broker_that_does_not_fence_zombies(patch: Patch) -> None:
    """The new producer gets the epoch that the old one still has."""

    def same_again(self: Coordinator, found: Transaction, given: ProducerIdAndEpoch | None) -> tuple[ProducerIdAndEpoch, int]:
        return (found.producer if found.producer.epoch >= 0 else found.producer._replace(epoch=0)), -1

    patch.setattr(Coordinator, "_next_producer", same_again)

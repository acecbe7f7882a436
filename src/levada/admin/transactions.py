"""Describe transactions and their producers, fence producers, and end transactions that hang (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from levada.admin.cluster import describe_cluster
from levada.admin.coordinators import each_at_its_coordinator
from levada.admin.leaders import ON_LEADER_ERROR, each_at_its_leader
from levada.admin.per_key import Attempts, Doing, each, lost, take
from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator, ThisNode
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConnectError, UnsupportedVersionError
from levada.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from levada.protocol.messages.describe_producers import ProducerState as ProducerStateMessage
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from levada.protocol.messages.describe_transactions import TransactionState as TransactionStateMessage
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from levada.types import AbortTransactionSpec, TopicPartition

FIRST_VERSION_WITH_DURATION = 1
FIRST_VERSION_WITH_PATTERN = 2
NOT_SET = -1

ON_TRANSACTION_ERROR = RetryPolicy(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.REFIND,
        ErrorCode.NOT_COORDINATOR: Reaction.REFIND,
        # Of InitProducerId alone: the open transaction of the producer that is fenced is being aborted.
        ErrorCode.CONCURRENT_TRANSACTIONS: Reaction.RETRY,
    }
)


class TransactionState(StrEnum):
    """The state of a transactional id. UNKNOWN: a state of a newer Kafka."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


class TransactionDescription(NamedTuple):
    """A transactional id, as its coordinator describes it.

    timeout_ms: the time after which the coordinator aborts an open transaction. start_time_ms: when the open transaction began, in ms since
    the epoch; None if no transaction is open (Kafka before 4.0 then keeps the start of the last transaction). partitions: the partitions
    of the open transaction; a partition of __consumer_offsets stands for groups whose offsets are part of the transaction.
    """

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class TransactionListing(NamedTuple):
    """A transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class ProducerState(NamedTuple):
    """A producer, as a partition's leader remembers it.

    last_timestamp: the timestamp of the producer's last record, in ms since the epoch. coordinator_epoch: the epoch of the coordinator that
    ended the producer's last transaction in this partition; None before the first one has ended. current_transaction_start_offset: the
    first offset of the open transaction in this partition, None if no transaction is open. abort_transaction() needs producer_id,
    producer_epoch and coordinator_epoch.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """The new producer id and epoch of a transactional id. Brokers refuse producers with an older epoch."""

    producer_id: int
    producer_epoch: int


# By coordinator


def describe_transactions(
    ids: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn
) -> Flow[dict[str, TransactionDescription]]:
    """Describe transactional ids, with one request per coordinator. Return the descriptions by id.

    A coordinator that does not know the request (Kafka before 3.0) fails only its own ids.
    """
    doing = Doing(lambda key: f"describe transaction '{key}'", ON_TRANSACTION_ERROR, attempts, DescribeTransactionsRequest.NAME)

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, TransactionDescription]]:
        try:
            response: DescribeTransactionsResponse = yield Call(DescribeTransactionsRequest(transactional_ids=wanted), coordinator)
        except UnsupportedVersionError as refused:
            # While a cluster is upgraded, other coordinators may know the request.
            return Answer(errors=dict.fromkeys(wanted, refused))
        answer: Answer[str, TransactionDescription] = Answer(refresh=False)
        for found in response.transaction_states:
            value = _description(found, coordinator.node_id)
            if take(doing, answer, found.transactional_id, found.error_code, value) is Reaction.REFIND:
                finder.forget(CoordinatorKind.TRANSACTION, found.transactional_id)
        return answer

    return each_at_its_coordinator(doing, ids, finder, spawn, ask, kind=CoordinatorKind.TRANSACTION)


def fence_producers(
    ids: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, timeout_ms: int
) -> Flow[dict[str, FencedProducer]]:
    """Give each transactional id a new epoch, which fences its producers and aborts their open transaction.

    timeout_ms: the transaction timeout of the ids, until a new producer sets its own timeout.
    """
    doing = Doing(lambda key: f"fence the producers of '{key}'", ON_TRANSACTION_ERROR, attempts, InitProducerIdRequest.NAME)

    def ask(_: Whom, wanted: list[str]) -> Flow[Answer[str, FencedProducer]]:
        (key,) = wanted
        request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=timeout_ms)
        answer: Answer[str, FencedProducer] = Answer(refresh=False)
        try:
            response: InitProducerIdResponse = yield Call(request, _coordinator(key))
        except ConnectError as fault:
            return lost(doing, [key], fault)
        except BrokerError as refused:
            answer.errors[key] = refused
            return answer
        value = FencedProducer(response.producer_id, response.producer_epoch)
        if take(doing, answer, key, response.error_code, value) is Reaction.REFIND:
            finder.forget(CoordinatorKind.TRANSACTION, key)
        return answer

    return each(doing, ids, spawn, route=_coordinator, ask=ask)


# By broker


def list_transactions(
    attempts: Attempts,
    spawn: Spawn,
    *,
    states: Sequence[TransactionState],
    producer_ids: Sequence[int],
    duration_ms: int | None,
    pattern: str | None,
) -> Flow[list[TransactionListing]]:
    """Ask all brokers for the transactional ids that they coordinate. Return the ids that match all filters, sorted.

    states, producer_ids: empty for all. duration_ms: only ids whose transaction has been open for longer; None for all. pattern: a regular
    expression for the ids; None for all.
    """
    doing = Doing(lambda node: f"list the transactions of node {node}", ON_TRANSACTION_ERROR, attempts, ListTransactionsRequest.NAME)
    request = ListTransactionsRequest(state_filters=[state.value for state in states], producer_id_filters=list(producer_ids))
    oldest = 0
    if duration_ms is not None:
        request.duration_filter, oldest = duration_ms, FIRST_VERSION_WITH_DURATION
    if pattern is not None:
        request.transactional_id_pattern, oldest = pattern, FIRST_VERSION_WITH_PATTERN

    def ask(_: Whom, wanted: list[int]) -> Flow[Answer[int, list[TransactionListing]]]:
        try:
            response: ListTransactionsResponse = yield Call(request, ThisNode(wanted[0]), min_version=oldest)
        except UnsupportedVersionError as error:
            if not oldest:
                raise
            needed = "a pattern needs brokers since 4.1" if pattern is not None else "a duration needs brokers since 3.8"
            raise UnsupportedVersionError(f"{error.reason}; {needed}") from None
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        found = [
            TransactionListing(one.transactional_id, one.producer_id, TransactionState(one.transaction_state))
            for one in response.transaction_states
        ]
        answer: Answer[int, list[TransactionListing]] = Answer(refresh=False)
        take(doing, answer, wanted[0], response.error_code, found)
        return answer

    nodes = (yield from describe_cluster(attempts)).nodes
    by_node = yield from each(doing, [node.id for node in nodes], spawn, route=ThisNode, ask=ask)
    return sorted({listing for listings in by_node.values() for listing in listings})


# By leader


def describe_producers(
    partitions: Collection[TopicPartition], attempts: Attempts, spawn: Spawn
) -> Flow[dict[TopicPartition, tuple[ProducerState, ...]]]:
    """Describe the producers that the partitions' leaders remember. Return their states by partition."""
    doing = Doing(lambda tp: f"describe the producers of {tp}", ON_LEADER_ERROR, attempts, DescribeProducersRequest.NAME)

    def ask(leader: ThisNode, wanted: list[TopicPartition]) -> Flow[Answer[TopicPartition, tuple[ProducerState, ...]]]:
        topics: dict[str, TopicRequest] = {}
        for tp in wanted:
            topics.setdefault(tp.topic, TopicRequest(name=tp.topic, partition_indexes=[])).partition_indexes.append(tp.partition)
        response: DescribeProducersResponse = yield Call(DescribeProducersRequest(topics=list(topics.values())), leader)
        answer: Answer[TopicPartition, tuple[ProducerState, ...]] = Answer(refresh=False)
        for topic in response.topics:
            for part in topic.partitions:
                producers = tuple(_producer(producer) for producer in part.active_producers)
                take(doing, answer, TopicPartition(topic.name, part.partition_index), part.error_code, producers, part.error_message)
        return answer

    return each_at_its_leader(doing, partitions, spawn, ask)


def abort_transaction(spec: AbortTransactionSpec, attempts: Attempts, spawn: Spawn) -> Flow[None]:
    """Have a partition's leader write the abort marker for a producer's transaction, in that partition only. The coordinator does not learn
    of it.
    """
    doing = Doing(
        lambda tp: f"abort the transaction of producer {spec.producer_id} in {tp}", ON_LEADER_ERROR, attempts, WriteTxnMarkersRequest.NAME
    )

    def ask(leader: ThisNode, wanted: list[TopicPartition]) -> Flow[Answer[TopicPartition, None]]:
        tp = spec.partition
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            coordinator_epoch=spec.coordinator_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        )
        response: WriteTxnMarkersResponse = yield Call(WriteTxnMarkersRequest(markers=[marker]), leader)
        answer: Answer[TopicPartition, None] = Answer(refresh=False)
        for part in (part for one in response.markers for topic in one.topics for part in topic.partitions):
            take(doing, answer, tp, part.error_code, None)
        return answer

    yield from each_at_its_leader(doing, [spec.partition], spawn, ask)


def _coordinator(key: str) -> Coordinator:
    return Coordinator(CoordinatorKind.TRANSACTION, key)


def _description(found: TransactionStateMessage, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        coordinator_id,
        TransactionState(found.transaction_state),
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        None if found.transaction_start_time_ms == NOT_SET else found.transaction_start_time_ms,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions)),
    )


def _producer(found: ProducerStateMessage) -> ProducerState:
    return ProducerState(
        found.producer_id,
        found.producer_epoch,
        found.last_sequence,
        found.last_timestamp,
        None if found.coordinator_epoch == NOT_SET else found.coordinator_epoch,
        None if found.current_txn_start_offset == NOT_SET else found.current_txn_start_offset,
    )

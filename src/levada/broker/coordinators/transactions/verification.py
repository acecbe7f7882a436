"""Verification of transactional writes: the partition's leader asks the coordinator before the first batch (KIP-890).

The offsets of a group are transactional writes as well. Since Produce version 12 and TxnOffsetCommit version 5, the leader adds the
partitions to the transaction itself. In earlier versions the producer has added them, and the leader only asks. Without verification, a
late batch of a fenced producer would begin a transaction that no producer ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from levada.broker.access.permissions import find_topic
from levada.broker.coordinators.transactions.transaction import ProducerIdAndEpoch
from levada.broker.log.producer_state import NO_PRODUCER_ID
from levada.broker.log.validation import is_transactional
from levada.broker.node.state import Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from levada.types import TopicPartition

FIRST_ADDING_VERSION = 12
_KNOWS_TRANSACTION_ABORTABLE = 11
_USES_TOPIC_IDS = 13
_FIRST_COMMIT_THAT_ADDS = 5
_FIRST_COMMIT_THAT_ABORTS = 4
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43

_COORDINATOR_AWAY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class _TransactionalBatch(NamedTuple):
    """A transactional batch of a Produce request. sequence: its first sequence number."""

    partition: Partition
    producer: ProducerIdAndEpoch
    sequence: int


def unverified(call: Call) -> Mapping[TopicPartition, BrokerError]:
    """Ask the coordinator about the partitions of a Produce request to which the producer has not yet written in its transaction; return
    the errors of those that must not be written to. Without a transactional id there are none.

    From FIRST_ADDING_VERSION on, the partitions are added to the transaction. The first batches are announced to the partitions, so that no
    later batch can begin the transaction there (PartitionTransactions.announce). Raises INVALID_PRODUCER_ID_MAPPING if the request has
    batches of several transactional producers.
    """
    if call.request.transactional_id is None:
        return {}
    batches = list(_transactional_batches(call))
    producers = {batch.producer for batch in batches}
    if len(producers) > 1:
        raise BrokerError("transactional records of more than one producer", code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    unknown = [batch for batch in batches if not batch.partition.is_in_transaction(*batch.producer)]
    for partition, producer, sequence in unknown:
        # A producer with a new epoch for each transaction begins each one with sequence 0.
        partition.transactions.announce(*producer, 0 if call.version >= FIRST_ADDING_VERSION else sequence)
    if not unknown:
        return {}
    names = [batch.partition.name for batch in unknown]
    return {name: _refusal(name, code, call.version) for name, code in _ask(call, unknown[0].producer, names).items() if code}


def _transactional_batches(call: Call) -> Iterator[_TransactionalBatch]:
    """Yield the transactional batches for partitions that this node leads."""
    request: ProduceRequest = call.request
    for data in request.topic_data:
        for wanted in data.partition_data:
            records = wanted.records or b""
            if not is_transactional(records) or len(records) < _PRODUCER_AT + _PRODUCER.size:
                continue
            producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_AT)
            try:
                topic = find_topic(call, data.name, data.topic_id, by_id=call.version >= _USES_TOPIC_IDS)
                partition = call.state.lead_partition(topic, wanted.index)
            except BrokerError:
                continue  # The response has the partition's error.
            if producer_id != NO_PRODUCER_ID:
                yield _TransactionalBatch(partition, ProducerIdAndEpoch(producer_id, epoch), sequence)


def _ask(call: Call, producer: ProducerIdAndEpoch, names: Sequence[TopicPartition]) -> Mapping[TopicPartition, ErrorCode]:
    transactions, transactional_id = call.state.cluster.transactions, call.request.transactional_id
    try:
        call.state.cluster.transaction_coordinators.check_loaded(transactional_id)
        if call.version < FIRST_ADDING_VERSION:
            return transactions.verify(transactional_id, producer, names)
        transactions.add(transactional_id, producer, names, call.wall_ms)
    except BrokerError as error:
        return dict.fromkeys(names, error.code)
    return {}


def verify_group(call: Call) -> None:
    """Raise an error unless the group's offsets may be committed in the producer's transaction, to which newer requests add the group. If
    offsets are pending in it already, the coordinator is not asked.
    """
    if _has_open_group(call):
        return
    try:
        code = _ask_for_group(call)
    except BrokerError as error:
        code = error.code
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and call.version < _FIRST_COMMIT_THAT_ABORTS:
        code = ErrorCode.INVALID_TXN_STATE
    if code is not ErrorCode.NONE:
        raise BrokerError(f"the offsets of group {call.request.group_id!r} are not in the transaction", code=code)


def _has_open_group(call: Call) -> bool:
    """Return whether the producer has pending offsets in the partition of __consumer_offsets to which the group in the request belongs."""
    request: TxnOffsetCommitRequest = call.request
    cluster = call.state.cluster
    place_of = cluster.group_coordinators.place_of
    groups = cluster.group_offsets.open_groups(request.producer_id, request.producer_epoch)
    return any(place_of(group) == place_of(request.group_id) for group in groups)


def _ask_for_group(call: Call) -> ErrorCode:
    request: TxnOffsetCommitRequest = call.request
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    cluster = call.state.cluster
    cluster.transaction_coordinators.check_loaded(request.transactional_id)
    if call.version < _FIRST_COMMIT_THAT_ADDS:
        return cluster.transactions.verify_group(request.transactional_id, producer, request.group_id)
    cluster.transactions.add_group(request.transactional_id, producer, request.group_id, call.wall_ms)
    return ErrorCode.NONE


def _refusal(name: TopicPartition, code: ErrorCode, version: int) -> BrokerError:
    """Return the error for a partition. The coordinator's code is replaced if producers do not know it in this version of Produce."""
    told = code
    if code is ErrorCode.PRODUCER_FENCED:
        told = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_TRANSACTION_ABORTABLE:
        told = ErrorCode.INVALID_TXN_STATE
    elif code in _COORDINATOR_AWAY or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_ADDING_VERSION):
        told = ErrorCode.NOT_ENOUGH_REPLICAS
    return BrokerError(f"{name}: the transaction's coordinator answered {code.name}", code=told)

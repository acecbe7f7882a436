"""The requests of a transactional producer, as values: with the coordinator, the versions, and a function that finds error codes.

There are two transaction protocols (KIP-890). In the older protocol, the producer sends AddPartitionsToTxn and AddOffsetsToTxn to the
coordinator before it writes to a partition or commits offsets of a group. In the newer protocol, the partition's leader and the group's
coordinator do this when they get the newer version of Produce or TxnOffsetCommit, and the response to EndTxn has a new epoch. Versions must
not be mixed within a transaction. A delayed Produce request of the newer protocol would open a new transaction, and only the new epoch from
the newer EndTxn prevents that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from levada.acls import ResourceType
from levada.client.requests.destination import Coordinator, CoordinatorKind
from levada.client.requests.partition_answer import by_topic
from levada.error_codes import ErrorCode
from levada.producer.send.sequences import ProducerIdentity
from levada.producer.transactions.reactions import REACTIONS, Api, TransactionReaction
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from levada.protocol.schema import Request
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

FEATURE = "transaction.version"


class Protocol(NamedTuple):
    """One of the two transaction protocols, with its request versions.

    announces: whether the producer has to send AddPartitionsToTxn and AddOffsetsToTxn. produce, offsets, end: the oldest and newest version
    of Produce, TxnOffsetCommit and EndTxn.
    """

    announces: bool
    produce: tuple[int, int]
    offsets: tuple[int, int]
    end: tuple[int, int]


ANNOUNCING = Protocol(announces=True, produce=(3, 11), offsets=(0, 4), end=(0, 4))
IMPLICIT = Protocol(announces=False, produce=(12, 32767), offsets=(5, 5), end=(5, 5))
FIRST_LEVEL_OF_IMPLICIT = 2

NEWEST_ADD_PARTITIONS = 3
"""The newest version of AddPartitionsToTxn for clients. Later versions are for brokers only."""
FIRST_INIT_WITH_IDENTITY = 3
FIRST_OFFSETS_WITH_MEMBER = 3


def protocol_for(transaction_version: int) -> Protocol:
    """Return the protocol for a level of the finalized feature transaction.version."""
    return IMPLICIT if transaction_version >= FIRST_LEVEL_OF_IMPLICIT else ANNOUNCING


class EndTxn(NamedTuple):
    """The contents of one EndTxn request. A retry must have the same contents, version included. commits: False aborts."""

    commits: bool
    identity: ProducerIdentity
    versions: tuple[int, int]


class Question(NamedTuple):
    """A request to a coordinator. versions: the oldest and newest version to use.

    codes: returns the error codes of a response by subject; the subject names a partition or group, or is "". missing: returns a text about
    the results that a response without an error lacks; "" if it is complete.
    """

    api: Api
    whom: Coordinator
    request: Request
    versions: tuple[int, int]
    codes: Callable[[Any], Mapping[str, int]]
    missing: Callable[[Any], str] = lambda reply: ""

    @property
    def names(self) -> dict[ResourceType, str]:
        """The names of the group and the transactional id in the request, for errors about permissions."""
        fields = {ResourceType.GROUP: "group_id", ResourceType.TRANSACTIONAL_ID: "transactional_id"}
        found = {resource_type: getattr(self.request, field, None) for resource_type, field in fields.items()}
        return {ResourceType.TRANSACTIONAL_ID: self.whom.key} | {one: name for one, name in found.items() if name is not None}


SEVERITY = (
    TransactionReaction.DONE,
    TransactionReaction.RETRY,
    TransactionReaction.FIND_COORDINATOR,
    TransactionReaction.REFUSED,
    TransactionReaction.ABORT,
    TransactionReaction.ABORT_AND_INITIALIZE,
    TransactionReaction.FENCED,
    TransactionReaction.FATAL,
)


def worst(api: Api, codes: Mapping[str, int]) -> tuple[str, ErrorCode]:
    """Return the most severe error code of a response, with its subject. The producer reacts to this code only.

    SEVERITY orders the reactions. OPERATION_NOT_ATTEMPTED is less severe than other codes with the same reaction, because it does not name
    the cause.

    codes: an error code for each subject, such as a partition. If it is empty, the result is ("", NONE).
    """

    def weight(subject: str) -> tuple[int, bool]:
        code = ErrorCode.of(codes[subject])
        return SEVERITY.index(REACTIONS[api][code]), code is not ErrorCode.OPERATION_NOT_ATTEMPTED

    subject = max(codes, key=weight, default="")
    return subject, ErrorCode.of(codes[subject]) if subject in codes else ErrorCode.NONE


def _one_code(reply: Any) -> Mapping[str, int]:
    return {"": reply.error_code}


def initialize(transactional_id: str, timeout_ms: int, identity: ProducerIdentity) -> Question:
    """Return an InitProducerId request. timeout_ms: transaction.timeout.ms.

    identity: the current producer id and epoch, with which the coordinator detects a newer producer (KIP-360); NO_IDENTITY without any.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )
    oldest = FIRST_INIT_WITH_IDENTITY if identity.is_valid else 0

    def missing(reply: Any) -> str:
        return "" if reply.producer_id >= 0 and reply.producer_epoch >= 0 else "no producer id and epoch"

    return Question(Api.INIT_PRODUCER_ID, _transaction(transactional_id), request, (oldest, 32767), _one_code, missing)


def add_partitions(transactional_id: str, identity: ProducerIdentity, partitions: Collection[TopicPartition]) -> Question:
    """Return an AddPartitionsToTxn request."""
    asked = [str(tp) for tp in partitions]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[tp.partition for tp in members])
            for name, members in by_topic(partitions).items()
        ],
    )

    def codes(reply: Any) -> Mapping[str, int]:
        return {
            f"{topic.name}-{result.partition_index}": result.partition_error_code
            for topic in reply.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }

    versions = (0, NEWEST_ADD_PARTITIONS)
    return Question(Api.ADD_PARTITIONS, _transaction(transactional_id), request, versions, codes, _left_out(asked, codes))


def add_offsets(transactional_id: str, identity: ProducerIdentity, group_id: str) -> Question:
    """Return an AddOffsetsToTxn request."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=identity.producer_id, producer_epoch=identity.epoch, group_id=group_id
    )
    return Question(
        Api.ADD_OFFSETS, _transaction(transactional_id), request, (0, 32767), lambda reply: {_group(group_id): reply.error_code}
    )


def commit_offsets(
    transactional_id: str,
    identity: ProducerIdentity,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    versions: tuple[int, int],
) -> Question:
    """Return a TxnOffsetCommit request. The group's offsets become valid when the transaction is committed. versions: oldest and newest."""
    topics = [
        TxnOffsetCommitRequestTopic(name=name, partitions=[_offset(tp.partition, offsets[tp]) for tp in members])
        for name, members in by_topic(offsets).items()
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=topics,
    )
    names_member = group != ConsumerGroupMetadata(group.group_id)
    oldest = max(versions[0], FIRST_OFFSETS_WITH_MEMBER if names_member else 0)
    name = _group(group.group_id)
    asked = [f"{name}, {tp}" for tp in offsets]

    def codes(reply: Any) -> Mapping[str, int]:
        return {
            f"{name}, {topic.name}-{partition.partition_index}": partition.error_code
            for topic in reply.topics
            for partition in topic.partitions
        }

    whom = Coordinator(CoordinatorKind.GROUP, group.group_id)
    return Question(Api.TXN_OFFSET_COMMIT, whom, request, (oldest, versions[1]), codes, _left_out(asked, codes))


def end(transactional_id: str, ending: EndTxn) -> Question:
    """Return an EndTxn request, which commits or aborts a transaction."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=ending.identity.producer_id,
        producer_epoch=ending.identity.epoch,
        committed=ending.commits,
    )
    return Question(Api.END_TXN, _transaction(transactional_id), request, ending.versions, _one_code)


def describe(transactional_id: str) -> Question:
    """Return a DescribeTransactions request."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def codes(reply: Any) -> Mapping[str, int]:
        return {found.transactional_id: found.error_code for found in reply.transaction_states}

    def missing(reply: Any) -> str:
        return "" if reply.transaction_states else "the transactional id"

    return Question(Api.DESCRIBE_TRANSACTIONS, _transaction(transactional_id), request, (0, 32767), codes, missing)


def _left_out(asked: Collection[str], codes: Callable[[Any], Mapping[str, int]]) -> Callable[[Any], str]:
    """Return a function that names the subjects in `asked` without an error code in a response, because their result is unknown."""

    def missing(reply: Any) -> str:
        answered = codes(reply)
        return "; ".join(subject for subject in asked if subject not in answered)

    return missing


def _transaction(transactional_id: str) -> Coordinator:
    return Coordinator(CoordinatorKind.TRANSACTION, transactional_id)


def _group(group_id: str) -> str:
    return f"group {group_id!r}"


def _offset(partition: int, committed: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )

"""The requests of a transactional producer, as values: the coordinator, the versions, and where the response has its error codes.

There are two transaction protocols (KIP-890). In the older one the producer adds each partition and group to the transaction at the
coordinator before it writes. In the newer one the partition's leader and the group's coordinator do that, which the version of the request
tells them; and the end of a transaction returns a new epoch. Versions must not be mixed within a transaction: a delayed Produce of the
newer protocol would open a transaction by itself, and only the new epoch of the newer EndTxn prevents that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from levada.acls import ResourceType
from levada.client.requests.destination import Coordinator, CoordinatorKind
from levada.client.requests.partition_answer import by_topic
from levada.error_codes import ErrorCode
from levada.producer.send.sequences import ProducerIdentity
from levada.producer.transactions.reactions import REACTIONS, Api, Reaction
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
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

    announces: whether partitions and groups are added at the coordinator. produce, offsets, end: oldest and newest version of Produce,
    TxnOffsetCommit and EndTxn.
    """

    announces: bool
    produce: tuple[int, int]
    offsets: tuple[int, int]
    end: tuple[int, int]


ANNOUNCING = Protocol(announces=True, produce=(3, 11), offsets=(0, 4), end=(0, 4))
IMPLICIT = Protocol(announces=False, produce=(12, 32767), offsets=(5, 5), end=(5, 5))
FIRST_LEVEL_OF_IMPLICIT = 2

NEWEST_ADD_PARTITIONS = 3
"""Later versions are for brokers only."""
FIRST_INIT_WITH_IDENTITY = 3
FIRST_OFFSETS_WITH_MEMBER = 3


def protocol_for(transaction_version: int) -> Protocol:
    """Return the protocol for a level of the feature transaction.version."""
    return IMPLICIT if transaction_version >= FIRST_LEVEL_OF_IMPLICIT else ANNOUNCING


class EndTxn(NamedTuple):
    """The contents of one EndTxn. A retry must have exactly the same contents."""

    commits: bool
    identity: ProducerIdentity
    versions: tuple[int, int]


class Question(NamedTuple):
    """A request to a coordinator. codes: returns the error codes in the response by subject: the name of a partition or group.

    missing: returns what a response without an error lacks, as text; empty if it is complete.
    """

    api: Api
    whom: Coordinator
    request: Request
    versions: tuple[int, int]
    codes: Callable[[Any], Mapping[str, int]]
    missing: Callable[[Any], str] = lambda reply: ""

    @property
    def names(self) -> dict[ResourceType, str]:
        """The group and the transactional id that the request names."""
        fields = {ResourceType.GROUP: "group_id", ResourceType.TRANSACTIONAL_ID: "transactional_id"}
        found = {resource_type: getattr(self.request, field, None) for resource_type, field in fields.items()}
        return {ResourceType.TRANSACTIONAL_ID: self.whom.key} | {one: name for one, name in found.items() if name is not None}


SEVERITY = (
    Reaction.DONE,
    Reaction.RETRY,
    Reaction.FIND_COORDINATOR,
    Reaction.REFUSED,
    Reaction.ABORT,
    Reaction.ABORT_AND_INITIALIZE,
    Reaction.FENCED,
    Reaction.FATAL,
)


def worst(api: Api, codes: Mapping[str, int]) -> tuple[str, ErrorCode]:
    """Return the most severe error code of a response, and the subject that has it. The producer reacts to this code (SEVERITY).

    OPERATION_NOT_ATTEMPTED is less severe than another code with the same reaction, because it does not name the cause.
    """

    def weight(subject: str) -> tuple[int, bool]:
        code = ErrorCode.of(codes[subject])
        return SEVERITY.index(REACTIONS[api][code]), code is not ErrorCode.OPERATION_NOT_ATTEMPTED

    subject = max(codes, key=weight, default="")
    return subject, ErrorCode.of(codes[subject]) if subject in codes else ErrorCode.NONE


def _one_code(reply: Any) -> Mapping[str, int]:
    return {"": reply.error_code}


def initialize(transactional_id: str, timeout_ms: int, identity: ProducerIdentity) -> Question:
    """Return InitProducerId. identity: the current producer id and epoch, so that the coordinator detects other producers (KIP-360)."""
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
    """Return AddPartitionsToTxn."""
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
    """Return AddOffsetsToTxn."""
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
    """Return TxnOffsetCommit. The offsets of the group become valid when the transaction is committed."""
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
    """Return EndTxn, which commits or aborts."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=ending.identity.producer_id,
        producer_epoch=ending.identity.epoch,
        committed=ending.commits,
    )
    return Question(Api.END_TXN, _transaction(transactional_id), request, ending.versions, _one_code)


def _left_out(asked: Collection[str], codes: Callable[[Any], Mapping[str, int]]) -> Callable[[Any], str]:
    """Return a function that finds subjects without an error code in the response: their result is unknown."""

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

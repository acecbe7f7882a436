"""The common part of OffsetCommit and TxnOffsetCommit: which partitions may be committed, the member's checks, the error codes.

As in Kafka, partitions that do not exist, or whose topic the client may not read, are refused first, on any node. An error of the group or
of the member then applies to all other partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

from levada.broker.access.permissions import find_topic
from levada.broker.cluster.topic import Topic
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.coordinators.groups.groups import Commit
from levada.broker.node.state import Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.types import OffsetAndMetadata, TopicPartition

T = TypeVar("T")

_Place: TypeAlias = tuple[int, int]
"""Indexes of a partition in a request: of its topic, and within the topic."""


class TopicToCommit(Protocol):
    """A topic in an OffsetCommit or TxnOffsetCommit request."""

    name: str
    topic_id: UUID
    partitions: list[Any]


_UNKNOWN_TO_OLDER = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH})


def check_member(call: Call, partitions: Collection[TopicPartition], *, in_transaction: bool, newer_codes_since: int) -> None:
    """Raise BrokerError with Kafka's code if the member in the request may not commit offsets for these partitions.

    newer_codes_since: the first version of the API whose response may have GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH. Earlier versions get
    ILLEGAL_GENERATION instead.
    """
    request, cluster = call.request, call.state.cluster
    commit = Commit(request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, call.version)
    owned = [TopicIdPartition(cluster.topics[tp.topic].id, tp.partition) for tp in partitions]
    try:
        call.state.groups.check_commit(commit, owned, call.now_ms, in_transaction=in_transaction)
    except BrokerError as error:
        if error.code in _UNKNOWN_TO_OLDER and call.version < newer_codes_since:
            raise BrokerError(error.reason, code=ErrorCode.ILLEGAL_GENERATION) from None
        raise


def commit_each(
    call: Call,
    topics: Sequence[TopicToCommit],
    *,
    by_id: bool,
    check: Callable[[Collection[TopicPartition]], None],
    commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
) -> list[list[ErrorCode]]:
    """Commit the offsets of the partitions for which this is allowed. Returns an error code for each partition of each topic, in the order
    of the request.

    by_id: whether the request names topics by id. check: called with the partitions that exist and that the client may read,
    if there are any; it raises BrokerError to refuse all of these. commit: stores the offsets, or raises BrokerError.
    """
    codes = [[ErrorCode.NONE] * len(topic.partitions) for topic in topics]
    found: dict[_Place, TopicPartition] = {}
    for at, topic in enumerate(topics):
        for part, wanted in enumerate(topic.partitions):
            try:
                found[at, part] = call.state.cluster.partition(_topic(call, topic, by_id=by_id), wanted.partition_index).name
            except BrokerError as error:
                codes[at][part] = error.code
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    try:
        if found:
            check(found.values())
        for place, tp in found.items():
            wanted = topics[place[0]].partitions[place[1]]
            codes[place[0]][place[1]] = code = _refusal(call, tp, wanted)
            if code is ErrorCode.NONE:
                offsets[tp] = OffsetAndMetadata(wanted.committed_offset, wanted.committed_leader_epoch, wanted.committed_metadata or "")
        if offsets:
            commit(offsets)
    except BrokerError as error:
        for at, part in found:
            codes[at][part] = error.code
    return codes


def answered(
    topics: Sequence[TopicToCommit], codes: Sequence[Sequence[ErrorCode]], topic: Callable[..., T], partition: Callable[..., Any]
) -> list[T]:
    """Return the topics of a response with these error codes. topic, partition: the classes of the response's structs. Topics without
    partitions are left out, as in Kafka.
    """
    return [
        topic(
            name=asked.name,
            topic_id=asked.topic_id,
            partitions=[
                partition(partition_index=wanted.partition_index, error_code=code)
                for wanted, code in zip(asked.partitions, found, strict=True)
            ],
        )
        for asked, found in zip(topics, codes, strict=True)
        if found
    ]


def _topic(call: Call, topic: TopicToCommit, *, by_id: bool) -> Topic:
    return find_topic(call, topic.name, topic.topic_id, by_id=by_id)


def _refusal(call: Call, tp: TopicPartition, wanted: Any) -> ErrorCode:
    planned = call.state.faults.partition_error(call.request.NAME, tp)
    if planned is not ErrorCode.NONE:
        return planned
    # Java's String.length() counts UTF-16 units.
    units = len((wanted.committed_metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    is_too_large = units > call.state.settings.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE

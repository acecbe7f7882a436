"""What OffsetCommit and TxnOffsetCommit have in common: which partitions may be committed, on whose behalf, and what each is answered.

As in Kafka, partitions that do not exist are told first, whoever coordinates the group; what is wrong with the group or its member
then holds for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from levada.broker.cluster import Topic
from levada.broker.state import BrokerState, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.types import OffsetAndMetadata, TopicPartition

_Place: TypeAlias = tuple[int, int]
"""Where a partition stands in the request: which topic, which of its partitions."""


class TopicToCommit(Protocol):
    """A topic of either request."""

    name: str
    topic_id: UUID
    partitions: list[Any]


def check_member(state: BrokerState, group: str, generation: int, *, unknown_group: ErrorCode) -> None:
    """Let a group without members exist, and raise what Kafka answers to a member of it.

    A generation below 0 is how an administrator commits, or a consumer of assigned partitions: any member id will do then.
    unknown_group: the error for a generation of a group that does not exist.
    """
    offsets = state.cluster.group_offsets
    if generation >= 0:
        code = ErrorCode.UNKNOWN_MEMBER_ID if group in offsets else unknown_group
        raise BrokerError(f"group '{group}' has no members and no generation {generation}", code=code)
    offsets.create(group)


def commit_each(
    call: Call,
    topics: Sequence[TopicToCommit],
    *,
    by_id: bool,
    check: Callable[[], None],
    commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
) -> list[list[ErrorCode]]:
    """Commit what may be committed; return an error code for each partition of each topic, in the order of the request.

    check: raises BrokerError when nothing may be; it is called if any partition exists. commit: stores offsets, or raises BrokerError.
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
            check()
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


def _topic(call: Call, topic: TopicToCommit, *, by_id: bool) -> Topic:
    return call.state.find_topic(topic.name, topic.topic_id, by_id=by_id)


def _refusal(call: Call, tp: TopicPartition, wanted: Any) -> ErrorCode:
    planned = call.state.faults.partition_error(call.request.NAME, tp)
    if planned is not ErrorCode.NONE:
        return planned
    # Java counts UTF-16 units, here as in String.length().
    units = len((wanted.committed_metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    is_too_large = units > call.state.settings.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE

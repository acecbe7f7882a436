"""The committed offsets of groups, for an admin client.

While a group has members, its coordinator refuses new offsets, and deletes offsets only of topics to which no member is subscribed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from levada.admin.coordinators import ON_GROUP_ERROR
from levada.admin.per_key import Attempts, Doing, each, lost, take
from levada.base.flow import Call, Flow
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.group_offsets import ON_COMMIT_ERROR, Committed, Waiting, commit_offsets, fetch_offsets, fetch_offsets_of_groups
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import ConnectError
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

ON_ALTER_ERROR = RetryPolicy({**ON_COMMIT_ERROR.on_error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RAISE})


def list_group_offsets(
    group_id: str, partitions: Collection[TopicPartition] | None, attempts: Attempts, finder: CoordinatorFinder, *, stable: bool
) -> Flow[Committed]:
    """Return the committed offsets of a group. partitions: None for all partitions with a committed offset.

    stable: wait until no open transaction can change the offsets (KIP-447).
    """
    return fetch_offsets(finder, group_id, partitions, attempts, Waiting(stable))


def list_offsets_of_groups(
    wanted: Mapping[str, Collection[TopicPartition] | None], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, stable: bool
) -> Flow[dict[str, Committed]]:
    """Return the committed offsets of several groups. wanted: the partitions of each group, None for all with a committed offset.

    stable: wait until no open transaction can change the offsets (KIP-447).
    """
    return fetch_offsets_of_groups(finder, wanted, attempts, spawn, stable=stable)


def alter_group_offsets(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], attempts: Attempts, finder: CoordinatorFinder
) -> Flow[dict[TopicPartition, None]]:
    """Commit offsets for a group without being a member of it. Return a dict that maps each partition to None.

    A group that does not exist is created. A group with members refuses the offsets.
    """
    yield from commit_offsets(finder, ConsumerGroupMetadata(group_id), offsets, attempts, ON_ALTER_ERROR)
    return dict.fromkeys(offsets)


def delete_group_offsets(
    group_id: str, partitions: Collection[TopicPartition], attempts: Attempts, finder: CoordinatorFinder
) -> Flow[dict[TopicPartition, None]]:
    """Delete the committed offsets of a group for these partitions. Return a dict that maps each partition to None."""
    doing = Doing(lambda tp: f"delete the offset of group '{group_id}' for {tp}", ON_GROUP_ERROR, attempts, OffsetDeleteRequest.NAME)

    def ask(coordinator: Whom, wanted: list[TopicPartition]) -> Flow[Answer[TopicPartition, None]]:
        try:
            response: OffsetDeleteResponse = yield Call(_delete_request(group_id, wanted), coordinator)
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        code = response.error_code
        parts = {
            TopicPartition(topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
        }
        answer: Answer[TopicPartition, None] = Answer(refresh=False)
        reactions = {take(doing, answer, tp, code or parts[tp], None) for tp in wanted if code or tp in parts}
        if Reaction.REFIND in reactions:
            finder.forget(CoordinatorKind.GROUP, group_id)
        return answer

    return each(doing, partitions, None, route=lambda tp: Coordinator(CoordinatorKind.GROUP, group_id), ask=ask)


def _delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, OffsetDeleteRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    return OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

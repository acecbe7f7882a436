"""The offsets of share groups, for an admin client (KIP-932).

The coordinator of a share group refuses changes while the group has members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from levada.admin.coordinators import ON_GROUP_ERROR, each_at_its_coordinator, take_group
from levada.admin.per_key import Attempts, Doing, each, lost, take
from levada.admin.requests import Outcome
from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import Reaction
from levada.errors import ConnectError
from levada.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from levada.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from levada.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from levada.protocol.schema import Request
from levada.types import UNKNOWN_OFFSET, TopicPartition

K = TypeVar("K")


class SharePartitionOffset(NamedTuple):
    """The progress of a share group in a partition.

    start_offset: the offset of the first record that is not accepted, rejected or archived. lag: the number of records that the group has
    not finished, None if the broker does not report it (before Kafka 4.2).
    """

    start_offset: int
    leader_epoch: int
    lag: int | None


ShareOffsets = dict[TopicPartition, SharePartitionOffset | None]
"""The offsets by partition; None where the group has no start offset yet."""


def list_share_offsets(
    wanted: Mapping[str, Collection[TopicPartition] | None], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn
) -> Flow[dict[str, ShareOffsets]]:
    """Return the progress of share groups by group id. A group with an error in one partition has failed.

    wanted: the partitions of each group; None for all partitions with a start offset.
    """
    doing = Doing(
        lambda group: f"list the offsets of share group '{group}'", ON_GROUP_ERROR, attempts, DescribeShareGroupOffsetsRequest.NAME
    )

    def ask(coordinator: ConnectionKey, groups: list[str]) -> Flow[Answer[str, ShareOffsets]]:
        request = DescribeShareGroupOffsetsRequest(groups=[_asked(group, wanted[group]) for group in groups])
        response: DescribeShareGroupOffsetsResponse = yield Call(request, coordinator)
        answer: Answer[str, ShareOffsets] = Answer(refresh=False)
        for found in response.groups:
            parts = [part for topic in found.topics for part in topic.partitions]
            refused = next((Outcome(part.error_code, part.error_message) for part in parts if part.error_code), None)
            said = refused or Outcome(found.error_code, found.error_message)
            take_group(doing, finder, answer, found.group_id, said.error_code, _offsets(found), said.message)
        return answer

    return each_at_its_coordinator(doing, wanted, finder, spawn, ask)


def alter_share_offsets(
    group: str, offsets: Mapping[TopicPartition, int], attempts: Attempts, finder: CoordinatorFinder
) -> Flow[dict[TopicPartition, None]]:
    """Set the start offsets of a share group. Return a dict that maps each partition to None."""
    doing = Doing(
        lambda tp: f"alter the offset of share group '{group}' for {tp}", ON_GROUP_ERROR, attempts, AlterShareGroupOffsetsRequest.NAME
    )

    def request(wanted: list[TopicPartition]) -> AlterShareGroupOffsetsRequest:
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for tp in wanted:
            topic = topics.setdefault(tp.topic, AlterShareGroupOffsetsRequestTopic(topic_name=tp.topic, partitions=[]))
            topic.partitions.append(AlterShareGroupOffsetsRequestPartition(partition_index=tp.partition, start_offset=offsets[tp]))
        return AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))

    def said(response: AlterShareGroupOffsetsResponse) -> dict[TopicPartition, Outcome]:
        return {
            TopicPartition(topic.topic_name, part.partition_index): Outcome(part.error_code, part.error_message)
            for topic in response.responses
            for part in topic.partitions
        }

    return _change(doing, group, offsets, finder, request, said)


def delete_share_offsets(group: str, topics: Collection[str], attempts: Attempts, finder: CoordinatorFinder) -> Flow[dict[str, None]]:
    """Delete the start offsets of a share group in all partitions of these topics. Return a dict that maps each topic to None."""
    doing = Doing(
        lambda topic: f"delete the offsets of share group '{group}' for topic '{topic}'",
        ON_GROUP_ERROR,
        attempts,
        DeleteShareGroupOffsetsRequest.NAME,
    )

    def request(wanted: list[str]) -> DeleteShareGroupOffsetsRequest:
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in wanted]
        return DeleteShareGroupOffsetsRequest(group_id=group, topics=named)

    def said(response: DeleteShareGroupOffsetsResponse) -> dict[str, Outcome]:
        return {topic.topic_name: Outcome(topic.error_code, topic.error_message) for topic in response.responses}

    return _change(doing, group, topics, finder, request, said)


def _change(
    doing: Doing,
    group: str,
    keys: Collection[K],
    finder: CoordinatorFinder,
    request: Callable[[list[K]], Request[Any]],
    said: Callable[[Any], Mapping[K, Outcome]],
) -> Flow[dict[K, None]]:
    """Send a request that changes the offsets of a share group. It goes to the coordinator of the group.

    keys: the partitions or topics to change. said: reads the outcome of each key from the response. If the response has an error code for
    the whole group, all keys get that code.
    """
    destination = Coordinator(CoordinatorKind.GROUP, group)

    def ask(_: Whom, wanted: list[K]) -> Flow[Answer[K, None]]:
        try:
            response = yield Call(request(wanted), destination)
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        told = dict.fromkeys(wanted, Outcome(response.error_code, response.error_message)) if response.error_code else said(response)
        answer: Answer[K, None] = Answer(refresh=False)
        for key in wanted:
            if key in told and take(doing, answer, key, told[key].error_code, None, told[key].message) is Reaction.REFIND:
                finder.forget(CoordinatorKind.GROUP, group)
        return answer

    return each(doing, keys, None, route=lambda key: destination, ask=ask)


def _asked(group: str, partitions: Iterable[TopicPartition] | None) -> DescribeShareGroupOffsetsRequestGroup:
    if partitions is None:
        return DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    topics: dict[str, DescribeShareGroupOffsetsRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, DescribeShareGroupOffsetsRequestTopic(topic_name=tp.topic, partitions=[]))
        topic.partitions.append(tp.partition)
    return DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=list(topics.values()))


def _offsets(group: DescribeShareGroupOffsetsResponseGroup) -> ShareOffsets:
    return {
        TopicPartition(topic.topic_name, part.partition_index): None
        if part.start_offset == UNKNOWN_OFFSET
        else SharePartitionOffset(part.start_offset, part.leader_epoch, None if part.lag == UNKNOWN_OFFSET else part.lag)
        for topic in group.topics
        for part in topic.partitions
    }

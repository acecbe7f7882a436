"""Descriptions of topics: page by page with DescribeTopicPartitions (KIP-966), or with Metadata for brokers that do not have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from levada.acls import AclOperation
from levada.admin.group_types import operations
from levada.admin.per_key import ON_ADMIN_ERROR, Attempts, Doing, each, lost, take
from levada.admin.requests import EXISTENCE, Asked, Outcome, carry_out
from levada.base.flow import ANY_NODE, Call, Flow
from levada.client.metadata.metadata_update import described_partitions
from levada.client.metadata.topic_queries import FIRST_VERSION_BY_ID, these_topics
from levada.client.requests.fan_out import Answer, Whom
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, UnsupportedVersionError
from levada.protocol.messages import describe_topic_partitions
from levada.protocol.messages.describe_topic_partitions import (
    OPERATIONS_NOT_ASKED,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from levada.protocol.schema import ZERO_UUID
from levada.types import PartitionInfo

_DESCRIBED = (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
"""Error codes of a topic that can be described: no error, or a partition without a leader."""


class TopicDescription(NamedTuple):
    """A topic as the brokers describe it.

    authorized_operations: the operations that this user may do with the topic, None if the broker does not report them.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    authorized_operations: frozenset[AclOperation] | None = None


def describe_topics(names: Collection[str], attempts: Attempts) -> Flow[dict[str, TopicDescription]]:
    """Describe topics by name."""
    doing = Doing(lambda name: f"describe topic '{name}'", ON_ADMIN_ERROR, attempts, MetadataRequest.NAME)

    def ask(_: Whom, wanted: list[str]) -> Flow[Answer[str, TopicDescription]]:
        try:
            said: dict[str, Outcome] = yield from _describe_once(wanted)
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        answer: Answer[str, TopicDescription] = Answer(refresh=False)
        for name in wanted:
            outcome = said.get(name, Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            take(doing, answer, name, outcome.error_code, outcome.value, EXISTENCE.get(outcome.error_code, outcome.message))
        return answer

    return each(doing, list(dict.fromkeys(names)), None, route=lambda name: ANY_NODE, ask=ask)


def describe_topics_by_id(ids: Collection[UUID], attempts: Attempts) -> Flow[dict[UUID, TopicDescription]]:
    """Describe topics by their ids (KIP-516)."""
    asked = Asked(
        lambda topic_id: f"describe the topic with id {topic_id}",
        lambda ids: MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        lambda response: {topic.topic_id: _by_metadata(topic) for topic in response.topics},
        min_version=FIRST_VERSION_BY_ID,
    )
    return carry_out(asked, ids, attempts, route=lambda topic_id: ANY_NODE)


def _describe_once(names: list[str]) -> Flow[dict[str, Outcome]]:
    try:
        return (yield from _page_by_page(names))
    except UnsupportedVersionError:
        response: MetadataResponse = yield from these_topics(*names, may_create=False)
    return {topic.name or "": _by_metadata(topic) for topic in response.topics}


def _page_by_page(names: Iterable[str]) -> Flow[dict[str, Outcome]]:
    """Ask for all partitions of topics, in several requests. Each response has a part of the topics, sorted by name, and says where the
    next one begins.
    """
    wanted = [TopicRequest(name=name) for name in sorted(names)]
    found: dict[str, Outcome] = {}
    cursor: describe_topic_partitions.Cursor | None = None
    while True:
        response: DescribeTopicPartitionsResponse = yield Call(DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor))
        for topic in response.topics:
            name = topic.name or ""
            found[name] = _joined(found.get(name), _by_partitions(topic))
        cursor = response.next_cursor
        if cursor is None:
            return found
        first = cursor.topic_name
        wanted = [topic for topic in wanted if topic.name >= first]


def _joined(before: Outcome | None, page: Outcome) -> Outcome:
    """Return a topic's description with the partitions of two responses. before: the first response, None if there was none."""
    if before is None or before.value is None or page.value is None:
        return page
    return page._replace(value=before.value._replace(partitions=before.value.partitions + page.value.partitions))


def _by_partitions(topic: describe_topic_partitions.DescribeTopicPartitionsResponseTopic) -> Outcome:
    if topic.error_code not in _DESCRIBED:
        return Outcome(topic.error_code)
    partitions = tuple(_partition(topic.name or "", part) for part in topic.partitions)
    may = operations(topic.topic_authorized_operations, OPERATIONS_NOT_ASKED)
    return Outcome(ErrorCode.NONE, None, TopicDescription(topic.name or "", _id(topic.topic_id), topic.is_internal, partitions, may))


def _partition(topic: str, part: describe_topic_partitions.DescribeTopicPartitionsResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        topic,
        part.partition_index,
        part.leader_id,
        part.leader_epoch,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(part.offline_replicas),
        part.error_code,
        tuple(part.eligible_leader_replicas or ()),
        tuple(part.last_known_elr or ()),
    )


def _by_metadata(topic: MetadataResponseTopic) -> Outcome:
    if topic.error_code not in _DESCRIBED:
        return Outcome(topic.error_code)
    may = operations(topic.topic_authorized_operations, OPERATIONS_NOT_ASKED)
    described = TopicDescription(topic.name or "", _id(topic.topic_id), topic.is_internal, described_partitions(topic), may)
    return Outcome(ErrorCode.NONE, None, described)


def _id(topic_id: Any) -> UUID | None:
    return None if topic_id == ZERO_UUID else topic_id

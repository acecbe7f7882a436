"""The common part of ShareFetch and ShareAcknowledge: the member, and the acknowledgements of each partition (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from levada.broker.access.permissions import find_topic
from levada.broker.cluster.features import SHARE_GROUPS
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.node.state import Call
from levada.broker.replication.partition import Partition
from levada.broker.share.acknowledgements import AcknowledgementBatch, acknowledgements
from levada.broker.share.record_states import Event
from levada.broker.share.share_partitions import OpenShare
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_acknowledge import ShareAcknowledgeRequest


class PartitionAcknowledgements(Protocol):
    """A partition in a ShareFetch or ShareAcknowledge request, with its acknowledgements."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]:
        """The acknowledgements for the partition."""


class TopicAcknowledgements(Protocol):
    """A topic in a ShareFetch or ShareAcknowledge request, with its partitions."""

    topic_id: UUID

    @property
    def partitions(self) -> Sequence[PartitionAcknowledgements]:
        """The topic's partitions in the request."""


class Outcome(NamedTuple):
    """The result for one partition: an error code, NONE for success. moved: the partition, if another node leads it and this is the error;
    otherwise None.
    """

    code: ErrorCode = ErrorCode.NONE
    reason: str | None = None
    moved: Partition | None = None


Outcomes: TypeAlias = Mapping[TopicIdPartition, Outcome]


def check_share_groups(call: Call) -> None:
    """Raise UNSUPPORTED_VERSION if share groups are disabled in the cluster."""
    if not call.state.cluster.features.level(SHARE_GROUPS):
        raise BrokerError("share.version is 0", code=ErrorCode.UNSUPPORTED_VERSION)


def check_member(call: Call) -> tuple[str, str]:
    """Return the group id and the member id of a request. Raises UNSUPPORTED_VERSION if share groups are disabled, INVALID_REQUEST if an id
    is missing.
    """
    check_share_groups(call)
    group, member = call.request.group_id, call.request.member_id
    if group is None or not member:
        raise BrokerError("a share session needs a group and a member", code=ErrorCode.INVALID_REQUEST)
    return group, member


def has_acknowledgements(topics: Iterable[TopicAcknowledgements]) -> bool:
    """Return whether a request has at least one acknowledgement."""
    return any(partition.acknowledgement_batches for topic in topics for partition in topic.partitions)


def acknowledge_each(call: Call, topics: Iterable[TopicAcknowledgements]) -> Outcomes:
    """Apply the acknowledgements of each partition separately; return the results of the partitions that have any."""
    outcomes: dict[TopicIdPartition, Outcome] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                part = TopicIdPartition(topic.topic_id, partition.partition_index)
                outcomes[part] = _acknowledge(call, part, partition.acknowledgement_batches)
    return outcomes


def open_share(call: Call, part: TopicIdPartition, now_ms: int) -> OpenShare:
    """Return the share partition of the request's group for a partition. Raises BrokerError if the topic is unknown or not permitted, if
    this node does not lead the partition, or if the group has not subscribed to the topic.
    """
    topic = find_topic(call, "", part.topic_id, by_id=True)
    partition = call.state.lead_partition(topic, part.partition)
    return call.state.shares.open(call.request.group_id, topic, partition, now_ms)


def failure(call: Call, part: TopicIdPartition, error: BrokerError) -> Outcome:
    """Return the result for a partition that has failed with this error."""
    topic = call.state.cluster.topic_by_id(part.topic_id)
    return Outcome(error.code, error.reason, call.state.new_leader(topic, part.partition, error.code))


def _acknowledge(call: Call, part: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> Outcome:
    try:
        told = acknowledgements(batches, may_renew=call.request.is_renew_ack)
        opened = open_share(call, part, call.now_ms)
        call.state.raise_planned_fault(ShareAcknowledgeRequest.NAME, opened.partition.name)
        if not opened.config.share_may_renew and any(one.event is Event.RENEW for one in told):
            raise BrokerError("share.renew.acknowledge.enable is false", code=ErrorCode.INVALID_RECORD_STATE)
        call.state.shares.acknowledge(opened, call.request.member_id, told, call.now_ms)
    except BrokerError as error:
        return failure(call, part, error)
    return Outcome()

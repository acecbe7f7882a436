"""Members of classic and consumer groups without a client. They make any request that a test wants, valid or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from levada.protocol.embedded.consumer_protocol_assignment import ConsumerProtocolAssignment
from levada.protocol.embedded.consumer_protocol_assignment import TopicPartition as AssignedTopic
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.embedded.consumer_protocol_subscription import TopicPartition as OwnedTopic
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.protocol.prefixed import decode_prefixed, encode_prefixed

SESSION_MS = 10_000
REBALANCE_MS = 60_000
FIRST_VERSION_WITH_MEMBERS = 3


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None, version: int = 1) -> bytes:
    """Return a consumer's subscription, as JoinGroup has it. owned: the partitions that the consumer owns, by topic."""
    told = [OwnedTopic(topic=topic, partitions=list(partitions)) for topic, partitions in (owned or {}).items()]
    return encode_prefixed(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=told), version)


def assignment(**topics: Sequence[int]) -> bytes:
    """Return an assignment for a consumer, as SyncGroup has it: partitions by topic."""
    given = [AssignedTopic(topic=topic, partitions=list(partitions)) for topic, partitions in topics.items()]
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=given), 1)


def assigned(data: bytes) -> dict[str, list[int]]:
    """Return the partitions by topic in an assignment."""
    return {topic.topic: topic.partitions for topic in decode_prefixed(ConsumerProtocolAssignment, data).assigned_partitions}


def protocols(*names: str, metadata: bytes = b"") -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


class GroupMember:
    """A member of a classic group: its id and generation, and its requests. Keyword arguments of a method replace fields of the request."""

    def __init__(self, group: str, *, instance: str | None = None, offers: Sequence[JoinGroupRequestProtocol] = ()) -> None:
        self.group = group
        self.instance = instance
        self.offers = list(offers) or protocols("range")
        self.id = ""
        self.generation = -1
        self.protocol: str | None = None

    def join(self, **fields: Any) -> JoinGroupRequest:
        told = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": self.offers,
        }
        return JoinGroupRequest(**{**told, **fields})

    def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> SyncGroupRequest:
        given = [SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in (assignments or {}).items()]
        chosen = {"protocol_type": "consumer", "protocol_name": self.protocol}
        return SyncGroupRequest(**{**self._named, **chosen, "generation_id": self.generation, "assignments": given, **fields})

    def heartbeat(self, **fields: Any) -> HeartbeatRequest:
        return HeartbeatRequest(**{**self._named, "generation_id": self.generation, **fields})

    def leave(self, version: int, **fields: Any) -> LeaveGroupRequest:
        if version < FIRST_VERSION_WITH_MEMBERS:
            return LeaveGroupRequest(**{"group_id": self.group, "member_id": self.id, **fields})
        identity = MemberIdentity(member_id=self.id, group_instance_id=self.instance)
        return LeaveGroupRequest(**{"group_id": self.group, "members": [identity], **fields})

    def commit(self, topic: str, offset: int, *, partition: int = 0, **fields: Any) -> OffsetCommitRequest:
        parts = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=parts)]
        return OffsetCommitRequest(**{**self._named, "generation_id_or_member_epoch": self.generation, "topics": topics, **fields})

    def take(self, joined: Any) -> Any:
        """Store member id, generation and protocol of a JoinGroup response, and return the response."""
        self.id, self.generation, self.protocol = joined.member_id, joined.generation_id, joined.protocol_name
        return joined

    @property
    def _named(self) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.id, "group_instance_id": self.instance}


class ConsumerGroupMember:
    """A member of a consumer group (KIP-848). has: the partitions that the last response with an assignment has assigned."""

    def __init__(self, group: str, member_id: str, *, topics: Sequence[str] = ("t",), instance: str | None = None) -> None:
        self.group = group
        self.id = member_id
        self.topics = list(topics)
        self.instance = instance
        self.epoch = 0
        self.has: frozenset[tuple[UUID, int]] = frozenset()

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """Return the first heartbeat of a member, with all fields."""
        told = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": self.topics, "topic_partitions": []}
        return self.beat(**{**told, "member_epoch": 0, **fields})

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat that reports no change."""
        named = {"group_id": self.group, "member_id": self.id, "instance_id": self.instance, "member_epoch": self.epoch}
        return ConsumerGroupHeartbeatRequest(**{**named, **fields})

    def owning(self, partitions: Collection[tuple[UUID, int]] | None = None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat with the partitions that the member owns. Default: the partitions in `has`."""
        owned = sorted(self.has if partitions is None else partitions)
        grouped = groupby(owned, key=lambda partition: partition[0])
        told = [TopicPartitions(topic_id=topic, partitions=[index for _, index in found]) for topic, found in grouped]
        return self.beat(topic_partitions=told, **fields)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatRequest:
        return self.beat(member_epoch=epoch)

    def take(self, answer: Any) -> Any:
        """Store member id, epoch and assignment of a heartbeat response, and return the response."""
        if not answer.error_code:
            self.id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            self.has = frozenset((topic.topic_id, index) for topic in given for index in topic.partitions)
        return answer

    def commit(self, topic: str, offset: int, *, partition: int = 0, **fields: Any) -> OffsetCommitRequest:
        parts = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=parts)]
        named = {"group_id": self.group, "member_id": self.id, "group_instance_id": self.instance}
        return OffsetCommitRequest(**{**named, "generation_id_or_member_epoch": self.epoch, "topics": topics, **fields})

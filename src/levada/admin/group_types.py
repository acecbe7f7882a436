"""Listings and descriptions of groups, and the enumerations in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from levada.acls import AclOperation
from levada.admin.enum_names import KafkaWord
from levada.types import TopicPartition

_BITS = 32


class GroupType(KafkaWord):
    """The type of a group. UNKNOWN: a type of a newer Kafka."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"
    UNKNOWN = "Unknown"


class GroupState(KafkaWord):
    """The state of a group; which states are possible depends on its type. UNKNOWN: a state of a newer Kafka.

    EMPTY: it has no members, and may have offsets. STABLE: every member has its assignment. PREPARING_REBALANCE and COMPLETING_REBALANCE:
    of classic groups, while members join, and while they wait for their assignment. ASSIGNING and RECONCILING: of consumer groups, while a
    new target is computed, and while members move to it. NOT_READY: of streams groups.
    """

    EMPTY = "Empty"
    STABLE = "Stable"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.COMPLETING_REBALANCE if value == _COMPLETING_BEFORE_KAFKA_1 else super()._missing_(value)


_COMPLETING_BEFORE_KAFKA_1 = "AwaitingSync"


class GroupListing(NamedTuple):
    """A group that some broker coordinates.

    type: also CLASSIC if the broker does not report it (before 3.8). protocol_type: "consumer" for groups of consumers of either type; ""
    for a group that has offsets and never had members; "connect" for workers of Kafka Connect; or what else the members have chosen.
    """

    group_id: str
    type: GroupType
    protocol_type: str
    state: GroupState


class MemberDescription(NamedTuple):
    """A member of a group.

    assignment: the partitions that it has; for a member of a consumer group, including those that it is still giving up; empty if the
    members are no consumers. While a classic group rebalances, brokers before 4.0 report no assignment for any member. Only for members of
    consumer groups (KIP-848), otherwise None: target_assignment, the partitions that it is to have; member_epoch; and upgraded, whether it
    uses the new protocol, which is None if the broker does not report it.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    upgraded: bool | None = None


class ConsumerGroupDescription(NamedTuple):
    """A group of consumers of either protocol, as its coordinator describes it.

    is_simple_consumer_group: whether it has offsets and never had members. partition_assignor: the assignor's name, "" if none is chosen
    yet. authorized_operations: what this user may do with the group, None if it was not asked for. group_epoch, target_assignment_epoch: of
    consumer groups (KIP-848), None for others.
    """

    group_id: str
    is_simple_consumer_group: bool
    type: GroupType
    state: GroupState
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


class ClassicGroupDescription(NamedTuple):
    """A group of the classic protocol, whatever its members are: consumers, workers of Kafka Connect, ...

    protocol_type: what the members are, "" for a group that never had any. protocol_data: the protocol that they have agreed on, such as an
    assignor's name. Only members of groups of consumers have an assignment here.
    """

    group_id: str
    protocol_type: str
    protocol_data: str
    state: GroupState
    members: tuple[MemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None


class ShareMemberDescription(NamedTuple):
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int
    assignment: frozenset[TopicPartition]


class ShareGroupDescription(NamedTuple):
    """A share group (KIP-932), as its coordinator describes it. authorized_operations: None if it was not asked for."""

    group_id: str
    state: GroupState
    members: tuple[ShareMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


class StreamsTasks(NamedTuple):
    """Tasks of Kafka Streams: partitions by the id of their subtopology. active: processing. standby, warmup: with a copy of the state."""

    active: Mapping[str, frozenset[int]]
    standby: Mapping[str, frozenset[int]]
    warmup: Mapping[str, frozenset[int]]


class StreamsMemberDescription(NamedTuple):
    """A member of a streams group, which is a thread of an application. endpoint: host and port for interactive queries, None without one.

    task_offsets, task_end_offsets: the current and the last offsets of its tasks' states, by subtopology and partition. is_classic: whether
    it still uses the classic protocol.
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    member_epoch: int
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    task_offsets: Mapping[tuple[str, int], int]
    task_end_offsets: Mapping[tuple[str, int], int]
    is_classic: bool


class StreamsInternalTopic(NamedTuple):
    """A topic that an application creates for itself. partitions: 0 for as many as its source has."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class StreamsSubtopology(NamedTuple):
    """A part of a topology that shares no state with the others."""

    id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsInternalTopic, ...]
    repartition_source_topics: tuple[StreamsInternalTopic, ...]


class StreamsGroupDescription(NamedTuple):
    """A streams group (KIP-1071), as its coordinator describes it. topology_epoch: None while it has no topology.

    authorized_operations: None if it was not asked for.
    """

    group_id: str
    state: GroupState
    members: tuple[StreamsMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    authorized_operations: frozenset[AclOperation] | None = None


def operations(bits: int, not_asked: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit set, None for the value which means that they were not asked for."""
    if bits == not_asked:
        return None
    numbers = [number for number in range(AclOperation.READ.number, _BITS) if bits >> number & 1]
    return frozenset(map(AclOperation.of, numbers))

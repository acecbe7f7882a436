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

    EMPTY: the group has no members, but may have offsets. STABLE: every member has its assignment. Classic groups are in
    PREPARING_REBALANCE while members join, and in COMPLETING_REBALANCE while members wait for their assignment. Consumer groups and
    streams groups are in ASSIGNING while the coordinator computes a new target assignment, and in RECONCILING while members change to that
    assignment. NOT_READY: only streams groups.
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
    """A group in the list of its coordinator.

    type: CLASSIC also if the broker does not report the type (before 3.8). protocol_type: "consumer" for classic and consumer groups whose
    members are consumers; "connect" for workers of Kafka Connect; "" for a group that has offsets but never had members; or another name
    that the members have chosen.
    """

    group_id: str
    type: GroupType
    protocol_type: str
    state: GroupState


class MemberDescription(NamedTuple):
    """A member of a group.

    assignment: the partitions that the member owns, including partitions that it has not revoked yet; empty if the members are no
    consumers. While a classic group rebalances, brokers before 4.0 report no assignment for any member. target_assignment: the partitions
    that the member will own after the rebalance. member_epoch: the member's epoch. upgraded: whether the member uses the new protocol, None
    if the broker does not report it. These three are None unless the group is a consumer group (KIP-848).
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

    is_simple_consumer_group: whether the group has offsets but never had members. partition_assignor: the assignor's name, "" if none is
    chosen yet. authorized_operations: the operations that this user may do with the group, None if they were not requested. group_epoch,
    target_assignment_epoch: the epochs of a consumer group (KIP-848), None for other groups.
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
    """A group of the classic protocol. Its members may be consumers, workers of Kafka Connect or other programs.

    protocol_type: the kind of members, such as "consumer" or "connect"; "" for a group that never had members. protocol_data: the protocol
    that the members have agreed on, such as an assignor's name. Only members that are consumers have an assignment in `members`.
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
    """A share group (KIP-932), as its coordinator describes it.

    authorized_operations: the operations that this user may do with the group, None if they were not requested.
    """

    group_id: str
    state: GroupState
    members: tuple[ShareMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


class StreamsTasks(NamedTuple):
    """The tasks of a Kafka Streams member: for each subtopology id, the partitions.

    active: tasks that process records. standby, warmup: tasks that only keep a copy of the state.
    """

    active: Mapping[str, frozenset[int]]
    standby: Mapping[str, frozenset[int]]
    warmup: Mapping[str, frozenset[int]]


class StreamsMemberDescription(NamedTuple):
    """A member of a streams group, which is a thread of an application.

    endpoint: host and port for interactive queries, None if the member has none. task_offsets, task_end_offsets: the current and the last
    changelog offsets of the member's tasks, by subtopology and partition. is_classic: whether the member still uses the classic protocol.
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
    """A topic that an application creates for itself. partitions: their number; 0 if it is that of the source topics."""

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
    """A streams group (KIP-1071), as its coordinator describes it. topology_epoch: None while the group has no topology.

    authorized_operations: the operations that this user may do with the group, None if they were not requested.
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
    """Return the operations whose bits are set.

    not_asked: the value of `bits` for operations that were not requested. For it the result is None.
    """
    if bits == not_asked:
        return None
    numbers = [number for number in range(AclOperation.READ.number, _BITS) if bits >> number & 1]
    return frozenset(map(AclOperation.of, numbers))

"""StreamsGroupDescribe (key 89): describe the state and members of streams groups (KIP-1071).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string, struct, uint16

OPERATIONS_NOT_ASKED = -(1 << 31)


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"], key=89, versions="0-1", flexible="0+"):
    """The groups to describe."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean("1+")


class KeyValue(Struct):
    """A name and its value."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """An internal topic. partitions 0: as many as its source topics need."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class Subtopology(Struct):
    """A part of the topology that shares no state with the others."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Struct):
    """The topology of the application."""

    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable="0+")


class Endpoint(Struct):
    """The address at which the application's state can be queried."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    """The cumulative changelog offset of a task."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Struct):
    """Tasks of one subtopology, by partition."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """A member's current or target tasks."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Member(Struct):
    """A member, which is one thread of an application's process."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+")
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    is_classic: bool = boolean()


class TopologyDescriptionNode(Struct):
    """A source, processor or sink, and the nodes that it is connected to."""

    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: list[str] = array(string, "1+")
    sink_topic: str | None = string("1+", nullable="1+")
    stores: list[str] = array(string, "1+")
    successors: list[str] = array(string, "1+")


class TopologyDescriptionSubtopology(Struct):
    """The nodes of one subtopology."""

    subtopology_id: str = string("1+")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, "1+")


class TopologyDescriptionGlobalStore(Struct):
    """A global store's source and processor."""

    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")


class TopologyDescription(Struct):
    """The graph of the application, for people to read."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, "1+")
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, "1+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = struct(Topology, nullable="0+")
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED)
    topology_description: TopologyDescription | None = struct(TopologyDescription, "1+", nullable="1+")
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", ignorable=True)


class StreamsGroupDescribeResponse(Response, request=StreamsGroupDescribeRequest):
    """One description for each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)

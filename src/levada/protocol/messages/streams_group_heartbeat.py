"""StreamsGroupHeartbeat (key 88): join a streams group, stay in it, or leave it (KIP-1071).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string, struct, uint16


class KeyValue(Struct):
    """A name and its value."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """A required internal topic. partitions 0: as many as its source topics need."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    """A part of the topology that shares no state with the others."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    """The topology of the application, from which the coordinator assigns tasks."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class TaskIds(Struct):
    """Tasks of one subtopology, by partition."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Endpoint(Struct):
    """The address at which the application's state can be queried."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    """The cumulative changelog offset of a task."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"], key=88, versions="0-1", flexible="0+"):
    """Null and -1 mean unchanged. member_epoch: 0 joins, -1 leaves, -2 leaves temporarily (static members)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = struct(Topology, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    process_id: str | None = string(nullable="0+")
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+")
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+")
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+")
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+")
    shutdown_application: bool = boolean()


class Status(Struct):
    """A problem of the group, such as a missing source topic."""

    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class EndpointToPartitions(Struct):
    """The partitions whose state can be queried at one endpoint."""

    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Response, request=StreamsGroupHeartbeatRequest):
    """Tasks are null if unchanged."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+")
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(EndpointToPartitions, nullable="0+")

"""Descriptions of groups of Kafka Streams (KIP-1071). Members are threads of applications, and have tasks instead of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from levada.admin.coordinators import ON_GROUP_ERROR, each_at_its_coordinator, take_group
from levada.admin.describing_groups import NOT_THERE
from levada.admin.group_types import (
    GroupState,
    StreamsGroupDescription,
    StreamsInternalTopic,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTasks,
    operations,
)
from levada.admin.per_key import Attempts, Doing
from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.client.requests.fan_out import Answer, Spawn
from levada.error_codes import ErrorCode
from levada.protocol.messages.streams_group_describe import (
    OPERATIONS_NOT_ASKED,
    Assignment,
    DescribedGroup,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)


def describe_streams_groups(
    groups: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, authorized_operations: bool
) -> Flow[dict[str, StreamsGroupDescription]]:
    """Describe streams groups. authorized_operations: whether to include the operations that this user may perform on each group."""
    doing = Doing(lambda group: f"describe streams group '{group}'", ON_GROUP_ERROR, attempts, StreamsGroupDescribeRequest.NAME)

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, StreamsGroupDescription]]:
        request = StreamsGroupDescribeRequest(group_ids=wanted, include_authorized_operations=authorized_operations)
        response: StreamsGroupDescribeResponse = yield Call(request, coordinator)
        answer: Answer[str, StreamsGroupDescription] = Answer(refresh=False)
        for found in response.groups:
            message = NOT_THERE if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND else found.error_message
            take_group(doing, finder, answer, found.group_id, found.error_code, _group(found, coordinator.node_id), message)
        return answer

    return each_at_its_coordinator(doing, groups, finder, spawn, ask)


def _group(found: DescribedGroup, coordinator_id: int) -> StreamsGroupDescription:
    topology = found.topology
    return StreamsGroupDescription(
        group_id=found.group_id,
        state=GroupState(found.group_state),
        members=tuple(_member(member) for member in found.members),
        coordinator_id=coordinator_id,
        group_epoch=found.group_epoch,
        target_assignment_epoch=found.assignment_epoch,
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=tuple(_subtopology(part) for part in (topology.subtopologies if topology is not None else None) or ()),
        authorized_operations=operations(found.authorized_operations, OPERATIONS_NOT_ASKED),
    )


def _member(member: Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        host=member.client_host,
        member_epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=_named(member.client_tags),
        assignment=_tasks(member.assignment),
        target_assignment=_tasks(member.target_assignment),
        task_offsets=_offsets(member.task_offsets),
        task_end_offsets=_offsets(member.task_end_offsets),
        is_classic=member.is_classic,
    )


def _tasks(given: Assignment) -> StreamsTasks:
    def by_part(tasks: Iterable[TaskIds]) -> Mapping[str, frozenset[int]]:
        return {one.subtopology_id: frozenset(one.partitions) for one in tasks}

    return StreamsTasks(by_part(given.active_tasks), by_part(given.standby_tasks), by_part(given.warmup_tasks))


def _offsets(found: Iterable[TaskOffset]) -> Mapping[tuple[str, int], int]:
    return {(one.subtopology_id, one.partition): one.offset for one in found}


def _subtopology(part: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        id=part.subtopology_id,
        source_topics=tuple(part.source_topics),
        repartition_sink_topics=tuple(part.repartition_sink_topics),
        state_changelog_topics=_internal(part.state_changelog_topics),
        repartition_source_topics=_internal(part.repartition_source_topics),
    )


def _internal(topics: Iterable[TopicInfo]) -> tuple[StreamsInternalTopic, ...]:
    return tuple(StreamsInternalTopic(one.name, one.partitions, one.replication_factor, _named(one.topic_configs)) for one in topics)


def _named(pairs: Iterable[KeyValue]) -> Mapping[str, str]:
    return {pair.key: pair.value for pair in pairs}

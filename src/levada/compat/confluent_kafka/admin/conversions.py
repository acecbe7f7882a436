"""levada's admin types as confluent-kafka's, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import levada
from levada.compat.confluent_kafka.admin.types import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConsumerGroupDescription,
    ConsumerGroupListing,
    DescribeClusterResult,
    ListConsumerGroupsResult,
    ListOffsetsResultInfo,
    MemberAssignment,
    MemberDescription,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, exception, to_kafka_error
from levada.compat.confluent_kafka.message import TopicPartition, place
from levada.compat.confluent_kafka.model import ConsumerGroupState, ConsumerGroupType, Node, TopicPartitionInfo, Uuid, node
from levada.error_codes import ErrorCode

Nodes = Mapping[int, levada.Node]

_SOURCES: Final = {
    levada.ConfigSource.DYNAMIC_TOPIC_CONFIG: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    levada.ConfigSource.DYNAMIC_BROKER_CONFIG: ConfigSource.DYNAMIC_BROKER_CONFIG,
    levada.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    levada.ConfigSource.STATIC_BROKER_CONFIG: ConfigSource.STATIC_BROKER_CONFIG,
    levada.ConfigSource.DEFAULT_CONFIG: ConfigSource.DEFAULT_CONFIG,
    levada.ConfigSource.DYNAMIC_GROUP_CONFIG: ConfigSource.GROUP_CONFIG,
}
WORD_OF_STATE: Final = {
    ConsumerGroupState.PREPARING_REBALANCE: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCE: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.UNKNOWN: "Unknown",
}
_STATES: Final = {word: state for state, word in WORD_OF_STATE.items()}


def unless_error(outcome: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the result of one key; return an error as it is."""
    return outcome if isinstance(outcome, levada.KafkaError) else convert(outcome)


def new_topic(topic: NewTopic) -> levada.NewTopic:
    """Convert a NewTopic to levada's form."""
    if topic.replica_assignment is not None:
        return levada.NewTopic(topic.topic, config=topic.config, assignment=dict(enumerate(topic.replica_assignment)))
    return levada.NewTopic(topic.topic, topic.num_partitions, topic.replication_factor, topic.config)


def resource(found: ConfigResource) -> levada.ConfigResource:
    """Convert a resource to levada's form. Raises KafkaException for a type without settings."""
    if found.restype not in (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP):
        raise exception(ErrorCodes._INVALID_ARG, f"resources of type {found.restype.name} have no settings")
    return levada.ConfigResource(levada.ConfigResourceType(found.restype.name.capitalize()), found.name)


def entry(found: levada.ConfigEntry) -> ConfigEntry:
    """Return a setting in confluent-kafka's form."""
    return ConfigEntry(
        found.name,
        found.value,
        _source(found.source),
        found.is_read_only,
        found.is_default,
        found.is_sensitive,
        False,
        {one.name: ConfigEntry(one.name, one.value, _source(one.source), is_synonym=True) for one in found.synonyms},
    )


def _source(found: levada.ConfigSource) -> int:
    return int(_SOURCES.get(found, ConfigSource.UNKNOWN_CONFIG).value)


def changes(found: ConfigResource) -> dict[str, levada.AlterConfigOp]:
    """Return the changes of a resource's settings in levada's form. Raises KafkaException if there are none, TypeError for a setting
    without an operation.
    """
    if not found.incremental_configs:
        raise exception(ErrorCodes._INVALID_ARG, f"{found}: give incremental_configs, or call add_incremental_config()")
    wanted: dict[str, levada.AlterConfigOp] = {}
    for one in found.incremental_configs:
        operation = one.incremental_operation
        if not isinstance(operation, AlterConfigOpType):
            raise TypeError("incremental_operation must be an AlterConfigOpType")
        value = None if operation is AlterConfigOpType.DELETE else one.value
        wanted[one.name] = levada.AlterConfigOp(operation.name.capitalize(), value)
    return wanted


def offset_spec(spec: OffsetSpec) -> levada.OffsetSpec | int:
    """Convert an OffsetSpec to levada's form; a time becomes a number of milliseconds. Raises TypeError for anything else."""
    if not isinstance(spec, OffsetSpec):
        raise TypeError("Value must be a OffsetSpec")
    return levada.OffsetSpec(spec._value) if spec._value < 0 else spec._value


def listed_offset(found: levada.OffsetAndTimestamp | None) -> ListOffsetsResultInfo:
    """Convert a found offset to confluent-kafka's form; None becomes the offset -1."""
    return ListOffsetsResultInfo(-1, -1, -1) if found is None else ListOffsetsResultInfo(*found)


def elected(outcomes: Mapping[levada.TopicPartition, Any]) -> dict[TopicPartition, KafkaError | None]:
    """Return the outcomes of an election; as in confluent-kafka, it is an error if no election was needed."""
    found: dict[TopicPartition, KafkaError | None] = {}
    for tp, outcome in outcomes.items():
        error = to_kafka_error(outcome) if isinstance(outcome, levada.KafkaError) else None
        if outcome is False:
            error = KafkaError(ErrorCodes.ELECTION_NOT_NEEDED)
        partition = TopicPartition(*tp)
        partition.error = error
        found[partition] = error
    return found


def cluster(found: levada.ClusterDescription) -> DescribeClusterResult:
    """Return a cluster in confluent-kafka's form."""
    return DescribeClusterResult(node(found.controller), _nodes(found.nodes), found.cluster_id)


def topic(found: levada.TopicDescription, nodes: Nodes) -> TopicDescription:
    """Convert the description of a topic to confluent-kafka's form. nodes: the brokers by id; replicas on other brokers are left out."""
    partitions = [
        TopicPartitionInfo(
            one.partition,
            node(nodes.get(one.leader)),
            _nodes(nodes[id] for id in one.replicas if id in nodes),
            _nodes(nodes[id] for id in one.isr if id in nodes),
        )
        for one in found.partitions
    ]
    topic_id = Uuid(0, 0) if found.topic_id is None else Uuid.of(found.topic_id)
    return TopicDescription(found.name, topic_id, found.is_internal, partitions)


def _nodes(found: Any) -> list[Node]:
    return [made for one in found if (made := node(one)) is not None]


def listed_groups(found: list[levada.GroupListing]) -> ListConsumerGroupsResult:
    """Return a list of groups in confluent-kafka's form."""
    return ListConsumerGroupsResult(
        [ConsumerGroupListing(one.group_id, one.protocol_type == "", _state(one.state), _type(one.type)) for one in found], []
    )


def group(group_id: str, found: Any, nodes: Nodes) -> Any:
    """Convert the description of a group to confluent-kafka's form. A group that does not exist is described as DEAD; other errors are
    returned as they are. nodes: the brokers by id.
    """
    if isinstance(found, levada.errors.GroupError) and found.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return ConsumerGroupDescription(group_id, True, [], "", ConsumerGroupState.DEAD, None, ConsumerGroupType.CLASSIC)
    if isinstance(found, levada.KafkaError):
        return found
    members = [
        MemberDescription(
            member.member_id,
            member.client_id,
            member.host,
            _assignment(member.assignment) or MemberAssignment([]),
            member.group_instance_id,
            _assignment(member.target_assignment),
        )
        for member in found.members
    ]
    return ConsumerGroupDescription(
        group_id,
        found.is_simple_consumer_group,
        members,
        found.partition_assignor,
        _state(found.state),
        node(nodes.get(found.coordinator_id)),
        _type(found.type),
    )


def _assignment(found: Any) -> MemberAssignment | None:
    return None if found is None else MemberAssignment([TopicPartition(*tp) for tp in sorted(found)])


def _state(word: str) -> ConsumerGroupState:
    return _STATES.get(str(word), ConsumerGroupState.UNKNOWN)


def _type(word: str) -> ConsumerGroupType:
    return ConsumerGroupType.__members__.get(str(word).upper(), ConsumerGroupType.UNKNOWN)


def altered(wanted: list[TopicPartition], outcomes: Mapping[Any, Any]) -> list[TopicPartition]:
    """Return copies of the partitions of alter_consumer_group_offsets(), each with its error or None."""
    done = []
    for partition in wanted:
        outcome = outcomes.get(place(partition))
        copy = TopicPartition(partition.topic, partition.partition, partition.offset, partition.metadata, partition.leader_epoch)
        copy.error = to_kafka_error(outcome) if isinstance(outcome, levada.KafkaError) else None
        done.append(copy)
    return done

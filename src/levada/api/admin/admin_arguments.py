"""Checks what callers of KafkaAdmin pass about topics, settings, partitions, the cluster and groups.

The functions raise TypeError for a wrong type and ValueError for a wrong value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from levada.admin.cluster import FeatureUpdate, RaftEndpoint, UpgradeType
from levada.admin.configs import OPERATIONS, AlterConfigOp, ConfigResource, ConfigResourceType
from levada.admin.group_types import GroupState, GroupType
from levada.admin.groups import GroupFilter
from levada.admin.partitions import ElectionType
from levada.api import arguments
from levada.base.clock import epoch_ms
from levada.types import IsolationLevel, NewPartitions, OffsetSpec, TopicPartition, TopicPartitionReplica, setting_text

OF_ONE_BROKER = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
ALL_COMMITTED = -1


def topic_ids(given: Any) -> list[UUID]:
    """Check ids of topics, and return each once."""
    if isinstance(given, UUID) or not isinstance(given, Iterable):
        raise TypeError(f"expected a list of topic ids, got {given!r}")
    return [_id(one, "a topic") for one in dict.fromkeys(given)]


def directory_id(given: Any) -> UUID:
    """Check the id of the directory in which a controller stores the metadata log."""
    return _id(given, "a voter's directory")


def _id(given: Any, what: str) -> UUID:
    if not isinstance(given, UUID):
        raise TypeError(f"{what} is named by a uuid.UUID, got {given!r}")
    return given


def new_partitions(given: Any) -> dict[str, NewPartitions]:
    """Return the new total number of partitions of each topic, as NewPartitions."""
    wanted = _mapping(given, "a topic's name to how many partitions it is to have")
    return {arguments.topic_name(name): _new_partitions(name, count) for name, count in wanted.items()}


def _new_partitions(name: str, given: Any) -> NewPartitions:
    count, placed = given if isinstance(given, NewPartitions) else (given, None)
    brokers = None if placed is None else [node_ids(of_partition) for of_partition in placed]
    return NewPartitions(arguments.positive(f"the number of partitions of '{name}'", count), brokers)


def node_ids(given: Any) -> list[int]:
    """Check ids of brokers, and return them as a list."""
    if isinstance(given, int | str) or not isinstance(given, Iterable):
        raise TypeError(f"expected a list of broker ids, got {given!r}")
    return [arguments.whole("a broker's id", one) for one in given]


# Settings


def config_resources(given: Any) -> list[ConfigResource]:
    """Check config resources, and return each once."""
    if isinstance(given, str | ConfigResource) or not isinstance(given, Iterable):
        advice = f"; write [{given!r}]" if isinstance(given, ConfigResource) else ", such as [('Topic', 'orders')]"
        raise TypeError(f"expected a list of ConfigResource(type, name), got {given!r}{advice}")
    return list(dict.fromkeys(config_resource(one) for one in given))


def config_resource(given: Any) -> ConfigResource:
    """Return a config resource. Any pair of a type and a name is accepted."""
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise TypeError(f"expected ConfigResource(type, name), such as ('Topic', 'orders'), got {given!r}")
    (kind,) = arguments.named(ConfigResourceType, [given[0]], "type of resource")
    name = given[1]
    if kind in OF_ONE_BROKER and name and not name.isdecimal():
        raise ValueError(f"a {kind.lower()} is named by the broker's id as text, got {name!r}")
    return ConfigResource(kind, name)


def config_changes(given: Any) -> dict[ConfigResource, dict[str, AlterConfigOp]]:
    """Return the changes of settings for each resource, as AlterConfigOp by the name of the setting."""
    changes = _mapping(given, "a ConfigResource to its new settings")
    return {config_resource(one): _changes(one, settings) for one, settings in changes.items()}


def _changes(resource: Any, given: Any) -> dict[str, AlterConfigOp]:
    return {name: _change(name, value) for name, value in _mapping(given, f"a setting's name to its new value, for {resource!r}").items()}


def _change(name: str, value: Any) -> AlterConfigOp:
    if not isinstance(value, AlterConfigOp):
        return AlterConfigOp("Delete") if value is None else AlterConfigOp("Set", setting_text(value))
    operation = value.operation.capitalize()
    if operation not in OPERATIONS:
        raise ValueError(f"'{value.operation}' cannot be done to setting '{name}'; these can: {', '.join(OPERATIONS)}")
    if operation != "Delete" and value.value is None:
        raise ValueError(f"the change of setting '{name}' needs a value")
    return AlterConfigOp(operation, None if value.value is None else setting_text(value.value))


# Partitions


def offset_spec(tp: Any, given: Any) -> int:
    """Return the requested offset as ListOffsets encodes it: a time in ms since the epoch, or a negative OffsetSpec."""
    if isinstance(given, str):
        known = {spec.name.lower(): spec for spec in OffsetSpec}
        if given.lower() not in known:
            raise ValueError(f"{given!r} is no offset of {tp}; these are: {', '.join(known)}, or a time")
        return known[given.lower()]
    if isinstance(given, datetime | OffsetSpec):
        return epoch_ms(given) if isinstance(given, datetime) else given
    time_ms = arguments.whole(f"the time asked for in {tp}, in milliseconds since the epoch,", given)
    if time_ms < 0:
        raise ValueError(f"the time asked for in {tp} must not be negative, got {time_ms}; an OffsetSpec names the ends of the log")
    return time_ms


def isolation_level(given: Any) -> IsolationLevel:
    """Return the isolation level for its name or number."""
    if isinstance(given, str):
        found = {level.name.lower(): level for level in IsolationLevel}.get(given.lower())
        if found is None:
            raise ValueError(f"an isolation level is 'read_uncommitted' or 'read_committed', got {given!r}")
        return found
    return IsolationLevel(given)


def offset_before(tp: Any, given: Any) -> int:
    """Check an offset for delete_records(), which deletes the records before it, and return it. -1 means the high watermark.

    tp: the partition, for the error text.
    """
    offset = arguments.whole(f"the offset of {tp}", given)
    if offset < ALL_COMMITTED:
        raise ValueError(f"records of {tp} are deleted before an offset, or before the end with -1; got {offset}")
    return offset


def election_type(given: Any) -> ElectionType:
    """Return the ElectionType for a member of it, or for its name in Kafka."""
    (found,) = arguments.named(ElectionType, [given], "type of election")
    return found


def reassignments(given: Any) -> dict[TopicPartition, list[int] | None]:
    """Return the node ids of the new replicas for each partition; None for a reassignment to cancel."""
    wanted = _mapping(given, "TopicPartition to a list of broker ids, or to None")
    return {arguments.topic_partition(tp): None if brokers is None else node_ids(brokers) for tp, brokers in wanted.items()}


def replica(given: Any) -> TopicPartitionReplica:
    """Return a replica. Any triple of a topic name, a partition number and a node id is accepted."""
    if not isinstance(given, tuple) or len(given) != 3:
        raise TypeError(f"expected TopicPartitionReplica(topic, partition, broker_id), got {given!r}")
    topic, partition, broker_id = given
    return TopicPartitionReplica(
        arguments.topic_name(topic), arguments.whole("partition", partition), arguments.whole("broker_id", broker_id)
    )


def folder(given: Any) -> str:
    """Check the path of a log directory of a broker."""
    if not isinstance(given, str) or not given:
        raise TypeError(f"a folder of a broker is an absolute path as text, got {given!r}")
    return given


# The cluster


def feature_updates(given: Any) -> dict[str, FeatureUpdate]:
    """Return the new level of each feature, as FeatureUpdate. A number means an upgrade to this level."""
    return {name: _feature_update(name, one) for name, one in _mapping(given, "a feature's name to its level").items()}


def _feature_update(name: str, given: Any) -> FeatureUpdate:
    level, kind = given if isinstance(given, FeatureUpdate) else (given, UpgradeType.UPGRADE)
    (upgrade,) = arguments.named(UpgradeType, [kind], "type of upgrade")
    wanted = arguments.whole(f"the level of feature '{name}'", level)
    if wanted < 0:
        raise ValueError(f"the level of feature '{name}' must not be negative, got {wanted}")
    return FeatureUpdate(wanted, upgrade)


def raft_endpoint(given: Any) -> RaftEndpoint:
    """Check the endpoint of a listener of a controller."""
    if not isinstance(given, tuple) or len(given) != 3:
        raise TypeError(f"expected RaftEndpoint(name, host, port), got {given!r}")
    return RaftEndpoint(given[0], given[1], arguments.whole("port", given[2]))


def _mapping(given: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a mapping of {what}; got {given!r}")
    return given


def group_filter(types: Any, states: Any, protocol_types: Any) -> GroupFilter:
    """Return the filter for list_groups()."""
    return GroupFilter(
        frozenset(arguments.named(GroupType, types, "type of a group")),
        frozenset(arguments.named(GroupState, states, "state of a group")),
        frozenset(arguments.texts(protocol_types, "protocol types")),
    )


def offsets_wanted(wanted: Mapping[Any, Any]) -> dict[str, list[TopicPartition] | None]:
    """Return, for each group id, the partitions whose offsets to list; None for all partitions."""
    if not isinstance(wanted, Mapping):
        raise TypeError(f"expected a mapping of a group's id to its partitions, or to None for all; got {wanted!r}")
    return {
        arguments.group_id(group): None if partitions is None else arguments.topic_partitions(partitions)
        for group, partitions in wanted.items()
    }


def reason(given: Any) -> str:
    """Return the reason for the removal of members, which brokers log: "removed by an administrator", and the text of the program."""
    if not isinstance(given, str):
        raise TypeError(f"a reason is text, got {given!r}")
    return f"removed by an administrator: {given}" if given else "removed by an administrator"

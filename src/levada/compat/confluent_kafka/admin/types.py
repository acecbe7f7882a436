"""What AdminClient takes and returns. Classes and attributes have confluent-kafka's names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import total_ordering
from typing import Any, Final

from levada.compat.confluent_kafka.message import TopicPartition
from levada.compat.confluent_kafka.model import ConsumerGroupState, ConsumerGroupType, Node, TopicPartitionInfo, Uuid

RESOURCE_UNKNOWN, RESOURCE_ANY, RESOURCE_TOPIC, RESOURCE_GROUP, RESOURCE_BROKER, RESOURCE_TRANSACTIONAL_ID = range(6)
CONFIG_SOURCE_UNKNOWN_CONFIG = 0
CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG = 1
CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG = 2
CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG = 3
CONFIG_SOURCE_STATIC_BROKER_CONFIG = 4
CONFIG_SOURCE_DEFAULT_CONFIG = 5
CONFIG_SOURCE_GROUP_CONFIG = 8


class NewTopic:
    """A topic to be created. num_partitions, replication_factor: -1 for the broker's default. replica_assignment: the broker ids of each
    partition, in place of these two.
    """

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: list[list[int]] | None = None,
        config: dict[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions if replica_assignment is None else len(replica_assignment)
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment
        self.config = config

    def __repr__(self) -> str:
        return f"NewTopic(topic={self.topic},num_partitions={self.num_partitions})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewTopic) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.topic)


class NewPartitions:
    """The number of partitions that a topic shall have. replica_assignment: the broker ids of each new partition; None lets the cluster
    choose.
    """

    def __init__(self, topic: str, new_total_count: int, replica_assignment: list[list[int]] | None = None) -> None:
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment

    def __repr__(self) -> str:
        return f"NewPartitions(topic={self.topic},new_total_count={self.new_total_count})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewPartitions) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.topic)


class ResourceType(Enum):
    """The type of a resource."""

    UNKNOWN = RESOURCE_UNKNOWN
    ANY = RESOURCE_ANY
    TOPIC = RESOURCE_TOPIC
    GROUP = RESOURCE_GROUP
    BROKER = RESOURCE_BROKER
    TRANSACTIONAL_ID = RESOURCE_TRANSACTIONAL_ID

    def __lt__(self, other: ResourceType) -> bool:
        return bool(self.value < other.value)


class ConfigSource(Enum):
    """Where the value of a setting comes from. ConfigEntry.source is the number."""

    UNKNOWN_CONFIG = CONFIG_SOURCE_UNKNOWN_CONFIG
    DYNAMIC_TOPIC_CONFIG = CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG
    DYNAMIC_BROKER_CONFIG = CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG
    DYNAMIC_DEFAULT_BROKER_CONFIG = CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG
    STATIC_BROKER_CONFIG = CONFIG_SOURCE_STATIC_BROKER_CONFIG
    DEFAULT_CONFIG = CONFIG_SOURCE_DEFAULT_CONFIG
    GROUP_CONFIG = CONFIG_SOURCE_GROUP_CONFIG


class AlterConfigOpType(Enum):
    """How incremental_alter_configs() changes a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntry:
    """A setting of a resource, or a change of one."""

    def __init__(
        self,
        name: str,
        value: str | None,
        source: Any = ConfigSource.UNKNOWN_CONFIG,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: dict[str, ConfigEntry] | None = None,
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = is_read_only
        self.is_default = is_default
        self.is_sensitive = is_sensitive
        self.is_synonym = is_synonym
        self.synonyms = synonyms or {}
        self.incremental_operation = incremental_operation

    def __repr__(self) -> str:
        return f"ConfigEntry({self})"

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


@total_ordering
class ConfigResource:
    """A topic, broker or group with its settings, or with changes of them. Equality and order are those of type and name alone."""

    Type: Final = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: dict[str, str] | None = None,
        described_configs: dict[str, ConfigEntry] | None = None,
        error: Any = None,
        incremental_configs: Sequence[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("Expected resource name to be a string")
        if isinstance(restype, str):
            if restype.upper() not in ResourceType.__members__:
                raise ValueError(f'Unknown resource type "{restype}": should be a ConfigResource.Type')
            restype = ResourceType[restype.upper()]
        self.restype = ResourceType(restype)
        self.restype_int = int(self.restype.value)
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        """Note a setting. No call of AdminClient reads it; use add_incremental_config() instead. overwrite: replace an earlier value."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Add a change of one setting."""
        self.incremental_configs.append(config_entry)

    def __len__(self) -> int:
        return len(self.set_config_dict)

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return hash((self.restype, self.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigResource) and (self.restype, self.name) == (other.restype, other.name)

    def __lt__(self, other: ConfigResource) -> bool:
        return (self.restype, self.name) < (other.restype, other.name)

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype},{self.name})"


class OffsetSpec:
    """Which offset of a partition list_offsets() looks up."""

    def __init__(self, value: int) -> None:
        self._value = value

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Return the spec for the first offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Return the spec for the end."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Return the spec for the record with the largest timestamp."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """Return the spec for the first record at or after a time in milliseconds since the epoch."""
        return cls(timestamp)


class ListOffsetsResultInfo:
    """A result of list_offsets(). offset: -1 if there is no such record. timestamp: milliseconds since the epoch, -1 if unknown."""

    def __init__(self, offset: int, timestamp: int, leader_epoch: int) -> None:
        self.offset, self.timestamp = offset, timestamp
        self.leader_epoch = None if leader_epoch < 0 else leader_epoch


class DeletedRecords:
    """A result of delete_records(). low_watermark: the first offset that is left."""

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


class DescribeClusterResult:
    """The cluster."""

    def __init__(self, controller: Node | None, nodes: list[Node], cluster_id: str | None = None) -> None:
        self.controller, self.nodes, self.cluster_id = controller, nodes, cluster_id
        self.authorized_operations = None


class TopicDescription:
    """A topic."""

    def __init__(self, name: str, topic_id: Uuid, is_internal: bool, partitions: list[TopicPartitionInfo]) -> None:
        self.name, self.topic_id, self.is_internal, self.partitions = name, topic_id, is_internal, partitions
        self.authorized_operations = None


class ConsumerGroupListing:
    """A group in a list."""

    def __init__(self, group_id: str, is_simple_consumer_group: bool, state: ConsumerGroupState, type: ConsumerGroupType) -> None:
        self.group_id, self.is_simple_consumer_group = group_id, is_simple_consumer_group
        self.state, self.type = state, type


class ListConsumerGroupsResult:
    """A result of list_consumer_groups(). valid: the groups. errors: always empty, because here the call fails as a whole."""

    def __init__(self, valid: list[ConsumerGroupListing], errors: list[Exception]) -> None:
        self.valid, self.errors = valid, errors


class MemberAssignment:
    """The partitions of a member."""

    def __init__(self, topic_partitions: list[TopicPartition] | None) -> None:
        self.topic_partitions = topic_partitions or []


class MemberDescription:
    """A member of a group."""

    def __init__(
        self,
        member_id: str,
        client_id: str,
        host: str,
        assignment: MemberAssignment,
        group_instance_id: str | None = None,
        target_assignment: MemberAssignment | None = None,
    ) -> None:
        self.member_id, self.client_id, self.host = member_id, client_id, host
        self.assignment, self.target_assignment = assignment, target_assignment
        self.group_instance_id = group_instance_id


class ConsumerGroupDescription:
    """A group."""

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        members: list[MemberDescription],
        partition_assignor: str,
        state: ConsumerGroupState,
        coordinator: Node | None,
        type: ConsumerGroupType = ConsumerGroupType.UNKNOWN,
    ) -> None:
        self.group_id, self.is_simple_consumer_group, self.members = group_id, is_simple_consumer_group, members
        self.partition_assignor, self.state, self.coordinator, self.type = partition_assignor, state, coordinator, type
        self.authorized_operations = None

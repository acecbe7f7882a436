"""ConsumerGroupPartitionMetadata (record type 4): the topics of a consumer group. Newer versions of Kafka store a hash of them instead.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int32, string, uuid


class ConsumerGroupPartitionMetadataKey(RecordKey, record_type=4):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class PartitionMetadata(Struct):
    """The racks of one partition's replicas."""

    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    """One topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(RecordValue, key=ConsumerGroupPartitionMetadataKey, versions="0", flexible="0+"):
    """The topics that the group has subscribed to."""

    topics: list[TopicMetadata] = array(TopicMetadata)

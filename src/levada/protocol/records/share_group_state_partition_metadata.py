"""ShareGroupStatePartitionMetadata (record type 15): the initialized partitions of a share group, and those in progress.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int32, string, uuid


class ShareGroupStatePartitionMetadataKey(RecordKey, record_type=15):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class TopicPartitionsInfo(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    """One topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(RecordValue, key=ShareGroupStatePartitionMetadataKey, versions="0", flexible="0+"):
    """The partitions that are being initialized, that are initialized, and that are being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)

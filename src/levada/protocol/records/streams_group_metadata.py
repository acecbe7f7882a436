"""StreamsGroupMetadata (record type 17): a streams group (KIP-1071).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import NEW, RecordKey, RecordValue, Struct, array, int32, int64, string


class StreamsGroupMetadataKey(RecordKey, record_type=17):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class LastAssignmentConfig(Struct):
    """A setting of the assignor."""

    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(RecordValue, key=StreamsGroupMetadataKey, versions="0", flexible="0+"):
    """metadata_hash: hash of the metadata of the needed topics. last_assignment_configs: settings of the last assignment."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tagged="0+", tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(LastAssignmentConfig, nullable="0+", default=NEW, tagged="0+", tag=1)
    stored_description_topology_epoch: int = int32(default=-1, tagged="0+", tag=2)
    failed_description_topology_epoch: int = int32(default=-1, tagged="0+", tag=3)

"""StreamsGroupMemberMetadata (record type 19): a member of a streams group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int32, string, struct, uint16


class StreamsGroupMemberMetadataKey(RecordKey, record_type=19):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class Endpoint(Struct):
    """The address at which the application's state can be queried."""

    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    """A name and its value."""

    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(RecordValue, key=StreamsGroupMemberMetadataKey, versions="0", flexible="0+"):
    """The member's description of itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+")
    client_tags: list[KeyValue] = array(KeyValue)

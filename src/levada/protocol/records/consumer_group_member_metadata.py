"""ConsumerGroupMemberMetadata (record type 5): a member of a consumer group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import NEW, RecordKey, RecordValue, Struct, array, bytestring, int32, string, struct


class ConsumerGroupMemberMetadataKey(RecordKey, record_type=5):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class ClassicProtocol(Struct):
    """An assignor that the member offers."""

    name: str = string()
    metadata: bytes = bytestring()


class ClassicMemberMetadata(Struct):
    """The data of a member that still uses the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(RecordValue, key=ConsumerGroupMemberMetadataKey, versions="0", flexible="0+"):
    """The member's description of itself. classic_member_metadata: null for members of the new protocol."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, nullable="0+", default=NEW, tagged="0+", tag=0)

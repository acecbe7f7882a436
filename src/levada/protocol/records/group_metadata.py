"""GroupMetadata (record type 2): a classic group in __consumer_offsets.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, bytestring, int32, int64, string


class GroupMetadataKey(RecordKey, record_type=2):
    """The key of the record: the id of the group."""

    group: str = string("0")


class MemberMetadata(Struct):
    """A member: its subscription and its assignment."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytestring()
    assignment: bytes = bytestring()


class GroupMetadataValue(RecordValue, key=GroupMetadataKey, versions="0-4", flexible="4+"):
    """leader and protocol: null if the group is empty."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)

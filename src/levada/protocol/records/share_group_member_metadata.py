"""ShareGroupMemberMetadata (record type 10): a member of a share group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, array, string


class ShareGroupMemberMetadataKey(RecordKey, record_type=10):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupMemberMetadataValue(RecordValue, key=ShareGroupMemberMetadataKey, versions="0", flexible="0+"):
    """The member's description of itself."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)

"""ShareGroupMetadata (record type 11): a share group (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string


class ShareGroupMetadataKey(RecordKey, record_type=11):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class ShareGroupMetadataValue(RecordValue, key=ShareGroupMetadataKey, versions="0", flexible="0+"):
    """metadata_hash: hash of the metadata of the subscribed topics."""

    epoch: int = int32()
    metadata_hash: int = int64()

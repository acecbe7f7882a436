"""ConsumerGroupMetadata (record type 3): a consumer group (KIP-848).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string


class ConsumerGroupMetadataKey(RecordKey, record_type=3):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class ConsumerGroupMetadataValue(RecordValue, key=ConsumerGroupMetadataKey, versions="0", flexible="0+"):
    """metadata_hash: hash of the metadata of the subscribed topics."""

    epoch: int = int32()
    metadata_hash: int = int64(tagged="0+", tag=0)

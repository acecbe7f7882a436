"""ConsumerProtocolAssignment: the assignment of a consumer in a classic group (the assignment of SyncGroup).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, Struct, array, bytestring, int32, string


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """user_data: bytes for the assignor's own use."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytestring(nullable="0+")

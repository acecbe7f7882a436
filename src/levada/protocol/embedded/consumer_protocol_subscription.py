"""ConsumerProtocolSubscription: the subscription of a consumer that joins a classic group (the metadata of JoinGroup).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, Struct, array, bytestring, int32, string


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """owned_partitions: partitions that the member owns (KIP-429). generation_id: the generation of that ownership (KIP-792)."""

    topics: list[str] = array(string)
    user_data: bytes | None = bytestring(nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", ignorable=True)

"""UpdateMetadata (key 6): a controller with ZooKeeper tells a broker the metadata to return to clients. Removed in Kafka 4.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class UpdateMetadataPartitionState(Struct):
    """A partition: its leader and its replicas. topic_name is here before version 5."""

    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = string("5+")
    topic_id: UUID = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    """The address of a broker's listener. security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Struct):
    """A live broker. Version 0 has only one address for each."""

    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="0+", ignorable=True)


class UpdateMetadataRequest(Request["UpdateMetadataResponse"], key=6, versions="0-8", flexible="6+"):
    """Partitions are a flat list before version 5, and grouped by topic since."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tagged="8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "0-4")
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


class UpdateMetadataResponse(Response, request=UpdateMetadataRequest):
    """It says whether the broker accepted the metadata."""

    error_code: int = int16()

"""Metadata (key 3): describe topics, the leaders of their partitions, and the addresses of the brokers.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string, uuid

OPERATIONS_NOT_ASKED = -(1 << 31)


class MetadataRequestTopic(Struct):
    """A topic by name, or since version 12 by id with a null name."""

    topic_id: UUID = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


class MetadataRequest(Request["MetadataResponse"], key=3, versions="0-13", flexible="9+"):
    """topics: null asks for all topics, empty for none. Version 0 has no null, and empty asks for all."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    """The address of a broker."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", ignorable=True)


class MetadataResponsePartition(Struct):
    """leader_id: -1 if there is no leader. Brokers before version 9 may answer with a stale leader_epoch."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """name: null if the topic was requested by an unknown id."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=OPERATIONS_NOT_ASKED)


class MetadataResponse(Response, request=MetadataRequest):
    """error_code is REBOOTSTRAP_REQUIRED or none (KIP-1102)."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=OPERATIONS_NOT_ASKED)
    error_code: int = int16("13+", ignorable=True)

"""Produce (key 0): append record batches to partitions. acks=0 is the only request without a response.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordBytes, Request, Response, Struct, array, int16, int32, int64, records, string, struct, uuid


class PartitionProduceData(Struct):
    """The record batches for one partition; since version 3 exactly one batch of magic 2."""

    index: int = int32()
    records: RecordBytes | None = records(nullable="0+")


class TopicProduceData(Struct):
    """The partitions of one topic. The topic is named by id since version 13."""

    name: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request["ProduceResponse | None"], key=0, versions="0-13", flexible="9+"):
    """acks: 0 none, 1 the leader, -1 all in-sync replicas. timeout_ms: how long the broker waits for these replicas."""

    transactional_id: str | None = string("3+", nullable="3+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    """Why one record of a batch was refused."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+")


class LeaderIdAndEpoch(Struct):
    """The leader and its epoch, as far as the broker knows. Sent with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The result for one partition. log_append_time_ms is -1 unless the topic uses LogAppendTime."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tagged="10+", tag=0)


class TopicProduceResponse(Struct):
    """The partitions of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    """The address of a leader that the response names (KIP-951)."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+")


class ProduceResponse(Response, request=ProduceRequest):
    """The result for every partition of the request."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tagged="10+", tag=0)

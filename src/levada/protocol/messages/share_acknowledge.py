"""ShareAcknowledge (key 79): acknowledge records of a share group without fetching more (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string, struct, uuid


class AcknowledgementBatch(Struct):
    """Acknowledged offsets: one acknowledgement type for each offset, or one for all."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class AcknowledgePartition(Struct):
    """The acknowledged offsets of one partition."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], key=79, versions="1-2", unstable="0", flexible="0+"):
    """share_session_epoch: -1 closes the session. is_renew_ack: some acknowledgements renew the lock of their records."""

    group_id: str | None = string(nullable="0+")
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    """The leader and its epoch, as far as the broker knows."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")


class ShareAcknowledgeResponse(Response, request=ShareAcknowledgeRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)

"""ShareFetch (key 78): acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import (
    RecordBytes,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Struct):
    """Acknowledged offsets: one acknowledgement type for each offset, or one for all."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Struct):
    """One partition. Only version 0 has partition_max_bytes."""

    partition_index: int = int32()
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave the share session."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Request["ShareFetchResponse"], key=78, versions="1-2", unstable="0", flexible="0+"):
    """share_session_epoch: 0 opens a session, -1 closes it. share_acquire_mode: 0 by batch, 1 by record."""

    group_id: str | None = string(nullable="0+")
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    """The leader and its epoch, as far as the broker knows."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    """Offsets that the member has acquired until the lock times out, and their delivery count."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    """The records of one partition, and the offsets that were acquired."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+")
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: RecordBytes | None = records(nullable="0")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")


class ShareFetchResponse(Response, request=ShareFetchRequest):
    """acquisition_lock_timeout_ms: how long records stay acquired by the member."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)

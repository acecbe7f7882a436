"""Fetch (key 1): read record batches from partitions. The broker waits until there are enough bytes (a long poll).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordBytes, Request, Response, Struct, array, int8, int16, int32, int64, records, string, struct, uuid


class ReplicaState(Struct):
    """The replica that fetches. A consumer leaves the defaults."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    """The offset to fetch from in one partition. log_start_offset and the fields after it are for followers."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: UUID = uuid("17+", tagged="17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", default=(1 << 63) - 1, tagged="18+", tag=1, ignorable=True)


class FetchTopic(Struct):
    """The partitions of one topic. The topic is named by id since version 13."""

    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave an incremental fetch session (KIP-227)."""

    topic: str = string("7-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


class FetchRequest(Request["FetchResponse"], key=1, versions="0-18", flexible="12+"):
    """session_epoch: -1 no session, 0 a new one, else the next epoch of session_id. The first batch may exceed max_bytes."""

    cluster_id: str | None = string("12+", nullable="12+", tagged="12+", tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tagged="15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """The epoch and offset at which the leader's log diverged from the follower's (KIP-595)."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The leader and its epoch, as far as the broker knows (KIP-951)."""

    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot that a follower of the metadata log should fetch instead."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """A producer whose transaction, starting at first_offset, was aborted."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Struct):
    """The records of one partition. The last batch may be incomplete."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tagged="12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tagged="12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tagged="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, "4+", nullable="4+", ignorable=True)
    preferred_read_replica: int = int32("11+", default=-1)
    records: RecordBytes | None = records(nullable="0+")


class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """The address of a leader that the response names (KIP-951)."""

    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+")


class FetchResponse(Response, request=FetchRequest):
    """In a fetch session, only partitions with changes are listed."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tagged="16+", tag=0)

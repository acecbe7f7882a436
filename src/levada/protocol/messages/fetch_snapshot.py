"""FetchSnapshot (key 59): read a snapshot of the metadata log (KIP-630).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordBytes, Request, Response, Struct, array, int16, int32, int64, records, string, struct, uint16, uuid


class SnapshotId(Struct):
    """The snapshot of the log up to end_offset. epoch: of the last record in it."""

    end_offset: int = int64()
    epoch: int = int32()


class PartitionSnapshot(Struct):
    """The position to read from in one snapshot."""

    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: UUID = uuid("1+", tagged="1+", tag=0, ignorable=True)


class TopicSnapshot(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot)


class FetchSnapshotRequest(Request["FetchSnapshotResponse"], key=59, versions="0-1", flexible="0+"):
    """replica_id: the replica that reads."""

    cluster_id: str | None = string(nullable="0+", tagged="0+", tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = array(TopicSnapshot)


class LeaderIdAndEpoch(Struct):
    """The leader and its epoch, as far as the controller knows."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionSnapshotResponse(Struct):
    """A part of one snapshot. It may begin and end inside a record batch."""

    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tagged="0+", tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: RecordBytes | None = records()


class TopicSnapshotResponse(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[PartitionSnapshotResponse] = array(PartitionSnapshotResponse)


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class FetchSnapshotResponse(Response, request=FetchSnapshotRequest):
    """One part for each partition."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[TopicSnapshotResponse] = array(TopicSnapshotResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tagged="1+", tag=0)

"""StopReplica (key 5): a controller with ZooKeeper tells a broker to stop replicating partitions. Removed in Kafka 4.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class StopReplicaPartitionV0(Struct):
    """A partition of version 0."""

    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    """The partitions of one topic, in versions 1 and 2."""

    name: str = string("1-2")
    partition_indexes: list[int] = array(int32, "1-2")


class StopReplicaPartitionState(Struct):
    """A partition, and whether to delete its log."""

    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    """The partitions of one topic, since version 3."""

    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Request["StopReplicaResponse"], key=5, versions="0-4", flexible="2+"):
    """delete_partitions applies to all partitions before version 3."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    """The result for one partition."""

    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Response, request=StopReplicaRequest):
    """One result for each partition."""

    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)

"""LeaderAndIsr (key 4): a controller with ZooKeeper tells a broker which partitions it leads or follows. Removed in Kafka 4.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Struct):
    """A partition: leader, in-sync replicas, and replicas that are added or removed. topic_name is here before version 2."""

    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, "3+", ignorable=True)
    removing_replicas: list[int] = array(int32, "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = string("2+")
    topic_id: UUID = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    """The address of a leader."""

    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrRequest(Request["LeaderAndIsrResponse"], key=4, versions="0-7", flexible="4+"):
    """Partitions are a flat list before version 2, and grouped by topic since. type: 1 some of the broker's partitions, 2 all."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    """The result for one partition."""

    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Response, request=LeaderAndIsrRequest):
    """A flat list before version 5, grouped by topic since."""

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")

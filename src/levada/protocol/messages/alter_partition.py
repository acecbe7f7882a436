"""AlterPartition (key 56): a leader asks the controller to change the set of in-sync replicas.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid


class BrokerState(Struct):
    """A replica and its broker's epoch, which shows that the broker has not restarted."""

    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class PartitionData(Struct):
    """The new in-sync replicas. leader_recovery_state: 1 while the leader recovers from an unclean election."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class TopicData(Struct):
    """The partitions of one topic. The topic is named by id since version 2."""

    topic_name: str = string("0-1", ignorable=True)
    topic_id: UUID = uuid("2+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class AlterPartitionRequest(Request["AlterPartitionResponse"], key=56, versions="0-3", flexible="0+"):
    """broker_id and broker_epoch: the leader that asks."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


class PartitionResponse(Struct):
    """The current state of the partition at the controller."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


class TopicResponse(Struct):
    """The partitions of one topic. The topic is named by id since version 2."""

    topic_name: str = string("0-1", ignorable=True)
    topic_id: UUID = uuid("2+", ignorable=True)
    partitions: list[PartitionResponse] = array(PartitionResponse)


class AlterPartitionResponse(Response, request=AlterPartitionRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicResponse] = array(TopicResponse)

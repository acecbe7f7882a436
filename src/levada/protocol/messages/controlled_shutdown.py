"""ControlledShutdown (key 7): a broker asks a controller with ZooKeeper to move its leaderships to other brokers. Removed in Kafka 4.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Request["ControlledShutdownResponse"], key=7, versions="0-3", flexible="3+"):
    """The broker that wants to shut down."""

    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Response, request=ControlledShutdownRequest):
    """If partitions remain, the broker asks again."""

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)

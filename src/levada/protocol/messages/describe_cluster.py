"""DescribeCluster (key 60): list the brokers or controllers of a cluster.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string

OPERATIONS_NOT_ASKED = -(1 << 31)


class DescribeClusterRequest(Request["DescribeClusterResponse"], key=60, versions="0-2", flexible="0+"):
    """endpoint_type: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    """A node of the cluster. is_fenced: it is registered, but cannot be a leader."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Response, request=DescribeClusterRequest):
    """The nodes, and the id of the controller."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED)

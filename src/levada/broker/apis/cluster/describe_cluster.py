"""DescribeCluster: the brokers, and the client's authorized operations on the cluster (KIP-700, KIP-919)."""

from __future__ import annotations

from levada.broker.access.permissions import operations_on_cluster
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

_BROKERS, _CONTROLLERS = 1, 2


def handle(call: Call) -> DescribeClusterResponse:
    """Return the brokers that are up. If the request asks for fenced brokers, the response also has the brokers that are down."""
    request: DescribeClusterRequest = call.request
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return refuse(request, call.version, ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    cluster = call.state.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=node_id in cluster.stopped)
            for node_id, node in call.nodes.items()
            if request.include_fenced_brokers or node_id not in cluster.stopped
        ],
        cluster_authorized_operations=operations_on_cluster(call, is_asked=request.include_cluster_authorized_operations),
    )


def refuse(request: DescribeClusterRequest, version: int, code: ErrorCode) -> DescribeClusterResponse:
    """Answer with an error and no brokers."""
    return DescribeClusterResponse(error_code=code, endpoint_type=_BROKERS)


API = Api(DescribeClusterRequest, 0, 2, handle, refuse, 0)

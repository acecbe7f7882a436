"""Which nodes describe the cluster: brokers, which know all topics, or controllers, which describe only themselves (KIP-919)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from levada.client.metadata.metadata import MetadataQuery
from levada.client.metadata.topic_queries import keep_only, request_for_all
from levada.error_codes import ErrorCode
from levada.errors import broker_error
from levada.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from levada.protocol.schema import Request

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""The values of endpoint_type in DescribeCluster."""
FIRST_VERSION_OF_CONTROLLERS: Final = 1
_MISMATCHED: Final = {
    BROKERS: "bootstrap.servers names a controller that is no broker: name a listener of a broker",
    CONTROLLERS: "bootstrap.controllers names a node that is no controller",
}
"""The error text for a node of the other kind, by what it was asked for."""

VersionFor = Callable[..., int]
"""NetworkClient.version_for of a node: (request class, min_version=0)."""


class MetadataSource(Protocol):
    """Makes the requests for metadata, to brokers or to controllers, and reads their responses."""

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Return the request for a node, and its version. Raises UnsupportedVersionError."""
        ...

    def metadata(self, query: MetadataQuery, response: Any, version: int) -> MetadataResponse:
        """Return a response as a MetadataResponse. Raises BrokerError if a node refused DescribeCluster, or is of the other kind."""
        ...


class Brokers:
    """Requests metadata of topics from any broker (Metadata)."""

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Return a Metadata request and its version. The request asks for all topics if this version cannot ask for the wanted ones."""
        version = version_for(MetadataRequest)
        asks_all = query.topics is None or version < query.min_version
        return (request_for_all(version) if asks_all else query.request), version

    def metadata(self, query: MetadataQuery, response: MetadataResponse, version: int) -> MetadataResponse:
        """Return the response. If the request had to ask for all topics, remove the topics that are not wanted."""
        if query.topics is not None and version < query.min_version:
            keep_only(response, sorted(query.topics))
        return response


class Controllers:
    """Asks any controller for the active controller (DescribeCluster). Only that node is kept, because other controllers answer no other
    request.
    """

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Return a DescribeCluster request for controllers, and its version."""
        version = version_for(DescribeClusterRequest, min_version=FIRST_VERSION_OF_CONTROLLERS)
        return DescribeClusterRequest(endpoint_type=CONTROLLERS), version

    def metadata(self, query: MetadataQuery, response: DescribeClusterResponse, version: int) -> MetadataResponse:
        """Return metadata with the active controller as the only node, and without topics: admin clients request topics from brokers
        themselves.
        """
        check_endpoint(response, CONTROLLERS)
        active = [node for node in response.brokers if node.broker_id == response.controller_id]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port) for node in active],
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
        )


def check_endpoint(response: DescribeClusterResponse, asked_for: int) -> None:
    """Raise BrokerError for a DescribeCluster response with an error. asked_for: BROKERS or CONTROLLERS, as in the request."""
    if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise broker_error(response.error_code, _MISMATCHED[asked_for])
    if response.error_code:
        raise broker_error(response.error_code, response.error_message or "the node refused DescribeCluster")

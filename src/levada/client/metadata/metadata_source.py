"""Who tells what belongs to a cluster: brokers, which know all topics, or its controllers, which tell of themselves (KIP-919)."""

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
"""Their words in DescribeCluster."""
FIRST_VERSION_OF_CONTROLLERS: Final = 1
_MISMATCHED: Final = {
    BROKERS: "bootstrap.servers names a controller that is no broker: name a listener of a broker",
    CONTROLLERS: "bootstrap.controllers names a node that is no controller",
}
"""What a node means that serves the other of the two, by what it was asked for."""

VersionFor = Callable[..., int]
"""NetworkClient.version_for of a node: (request class, min_version=0)."""


class MetadataSource(Protocol):
    """One of the two."""

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Return what to ask a node, and in which version. Raises UnsupportedVersionError."""
        ...

    def metadata(self, query: MetadataQuery, response: Any, version: int) -> MetadataResponse:
        """Return what an answer says. Raises BrokerError where it says that another node is to be asked."""
        ...


class Brokers:
    """Any of them knows all."""

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Ask for topics."""
        version = version_for(MetadataRequest)
        asks_all = query.topics is None or version < query.min_version
        return (request_for_all(version) if asks_all else query.request), version

    def metadata(self, query: MetadataQuery, response: MetadataResponse, version: int) -> MetadataResponse:
        """Cut down an answer about all topics where only that could be asked."""
        if query.topics is not None and version < query.min_version:
            keep_only(response, sorted(query.topics))
        return response


class Controllers:
    """The active controller is the only node that is told of: the others answer nothing else than who that is."""

    def request(self, query: MetadataQuery, version_for: VersionFor) -> tuple[Request[Any], int]:
        """Ask for controllers."""
        version = version_for(DescribeClusterRequest, min_version=FIRST_VERSION_OF_CONTROLLERS)
        return DescribeClusterRequest(endpoint_type=CONTROLLERS), version

    def metadata(self, query: MetadataQuery, response: DescribeClusterResponse, version: int) -> MetadataResponse:
        """Name the active controller. Of topics nothing is said: admin clients ask brokers for those themselves."""
        check_endpoint(response, CONTROLLERS)
        active = [node for node in response.brokers if node.broker_id == response.controller_id]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port) for node in active],
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
        )


def check_endpoint(response: DescribeClusterResponse, asked_for: int) -> None:
    """Raise BrokerError for an answer of DescribeCluster that is an error. asked_for: BROKERS or CONTROLLERS, as the request said."""
    if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise broker_error(response.error_code, _MISMATCHED[asked_for])
    if response.error_code:
        raise broker_error(response.error_code, response.error_message or "the node refused DescribeCluster")

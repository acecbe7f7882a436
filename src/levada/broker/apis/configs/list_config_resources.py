"""ListConfigResources: the resources that have or can have settings (KIP-714, KIP-1142)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from levada.broker.apis.configs.describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from levada.broker.cluster.cluster import Cluster
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

_FIRST_WITH_TYPES = 1


def handle(call: Call) -> ListConfigResourcesResponse:
    """List the config resources of the requested types. If the request names no types, list all; in version 0, only client metrics
    subscriptions.
    """
    types = (call.request.resource_types or list(_NAMES)) if call.version >= _FIRST_WITH_TYPES else [CLIENT_METRICS]
    if not set(types) <= _NAMES.keys():
        return refuse(call.request, call.version, ErrorCode.UNSUPPORTED_VERSION)
    cluster = call.state.cluster
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in dict.fromkeys(types) for name in _NAMES[kind](cluster)
        ]
    )


def refuse(request: ListConfigResourcesRequest, version: int, code: ErrorCode) -> ListConfigResourcesResponse:
    """Answer with an error and no resources."""
    return ListConfigResourcesResponse(error_code=code)


def _node_names(cluster: Cluster) -> Iterable[str]:
    return (str(node_id) for node_id in cluster.nodes)


_NAMES: Mapping[int, Callable[[Cluster], Iterable[str]]] = {
    TOPIC: lambda cluster: cluster.topics,
    BROKER: _node_names,
    BROKER_LOGGER: _node_names,
    CLIENT_METRICS: lambda cluster: cluster.metrics_subscriptions,
    GROUP: lambda cluster: cluster.configured_groups,
}

API = Api(ListConfigResourcesRequest, 0, 1, handle, refuse, 0)

"""ApiVersions: the APIs and versions that this broker serves, and its feature levels (KIP-511, KIP-584)."""

from __future__ import annotations

import re

from levada.broker.cluster.features import HIGHEST
from levada.broker.node.state import Api, Call, VersionRange
from levada.error_codes import ErrorCode
from levada.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_HAS_SOFTWARE = 3
_ANY_NODE = -1

# Older clients do not accept a feature whose minimum level is 0 (KAFKA-17011).
_KNOWS_LEVEL_0 = 4


def handle(call: Call) -> ApiVersionsResponse:
    """Return the version ranges of the APIs that are offered now, and the feature levels. A request that means another node or cluster gets
    REBOOTSTRAP_REQUIRED; one that names its software badly, or only one of node and cluster, gets INVALID_REQUEST.
    """
    request: ApiVersionsRequest = call.request
    if call.version >= _HAS_SOFTWARE and not (_names_software(request) and _names_node_and_cluster_or_neither(request)):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    if not _means_this_node(call, request):
        return refuse(request, call.version, ErrorCode.REBOOTSTRAP_REQUIRED)
    response = ApiVersionsResponse(api_keys=[_entry(served) for served in call.state.version_ranges()])
    features = call.state.cluster.features
    response.finalized_features_epoch = features.epoch
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level) for name, level in features.levels.items() if level
    ]
    if call.version >= _KNOWS_LEVEL_0:
        response.supported_features = [SupportedFeatureKey(name=name, min_version=0, max_version=HIGHEST[name]) for name in features.levels]
    return response


def refuse(request: ApiVersionsRequest | None, version: int, code: ErrorCode) -> ApiVersionsResponse:
    """Return a response with this error and without version ranges."""
    return ApiVersionsResponse(error_code=code)


def unsupported(own_range: VersionRange) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unknown version. It must be encoded as version 0 and lists only ApiVersions
    (KIP-511).
    """
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_entry(own_range)])


def _names_software(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def _names_node_and_cluster_or_neither(request: ApiVersionsRequest) -> bool:
    return (request.cluster_id is None) == (request.node_id == _ANY_NODE)


def _means_this_node(call: Call, request: ApiVersionsRequest) -> bool:
    """Return whether the cluster id and node id in the request, if given (version 5), are those of this node."""
    right_cluster = request.cluster_id in (None, call.state.cluster.id)
    return right_cluster and request.node_id in (_ANY_NODE, call.state.node_id)


def _entry(served: VersionRange) -> ApiVersion:
    return ApiVersion(api_key=served.api_key, min_version=served.min_version, max_version=served.max_version)


API = Api(ApiVersionsRequest, 0, 5, handle, refuse, 0)

"""FindCoordinator: the node that coordinates a group, a transactional id or a share partition. Every node gives the same answer."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from levada.acls import CLUSTER_NAME, ResourceType
from levada.broker.access.permissions import check
from levada.broker.cluster.cluster import Cluster
from levada.broker.coordinators.placement import Placement
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_BATCHED_VERSION = 4
FIRST_VERSION_WITH_SHARE = 6
_PROTECTED_AS = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID, SHARE: ResourceType.CLUSTER}
_NOBODY = -1
_UUID_BYTES = 16


def handle(call: Call) -> FindCoordinatorResponse:
    """Return the node that coordinates each group, transactional id or share partition in the request. If the internal topic of these
    coordinators does not exist, it is created.
    """
    request: FindCoordinatorRequest = call.request
    if call.version >= FIRST_BATCHED_VERSION:
        found = {key: _find(call, key) for key in dict.fromkeys(request.coordinator_keys)}
        return FindCoordinatorResponse(coordinators=[found[key] for key in request.coordinator_keys])
    return _single(_find(call, request.key))


def _find(call: Call, key: str) -> Coordinator:
    kind, cluster = call.request.key_type, call.state.cluster
    if kind not in _IS_KEY or (kind == SHARE and call.version < FIRST_VERSION_WITH_SHARE) or not _IS_KEY[kind](key):
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST)
    if (code := _refusal(call, kind, key)) is not ErrorCode.NONE:
        return _no_coordinator(key, code)
    placement = _placement(cluster, kind)
    try:
        placement.need()
    except BrokerError:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    node = call.nodes[placement.leader_of(key)]
    # Kafka returns this text when there is no error.
    message = "" if call.version >= FIRST_BATCHED_VERSION else ErrorCode.NONE.name
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=message)


def _refusal(call: Call, kind: int, key: str) -> ErrorCode:
    try:
        check(call, _PROTECTED_AS[kind], CLUSTER_NAME if kind == SHARE else key)
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE


def _placement(cluster: Cluster, kind: int) -> Placement:
    return {GROUP: cluster.group_coordinators, TRANSACTION: cluster.transaction_coordinators, SHARE: cluster.share_coordinators}[kind]


def _is_share_key(key: str) -> bool:
    """Return whether a key has the form group:topic id:partition, with the topic id in Kafka's base64. The group id may have colons."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and bool(parts[0]) and _is_topic_id(parts[1]) and parts[2].isdigit()


def _is_topic_id(text: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(text + "==")) == _UUID_BYTES
    except ValueError:
        return False


_IS_KEY: Mapping[int, Callable[[str], bool]] = {GROUP: lambda key: True, TRANSACTION: lambda key: True, SHARE: _is_share_key}


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=_NOBODY, host="", port=_NOBODY, error_code=code, error_message=code.name)


def _single(found: Coordinator) -> FindCoordinatorResponse:
    response = FindCoordinatorResponse(node_id=found.node_id, host=found.host, port=found.port)
    response.error_code, response.error_message = found.error_code, found.error_message
    return response


def refuse(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    """Answer with an error for every key."""
    if version < FIRST_BATCHED_VERSION:
        return _single(_no_coordinator(request.key, code))
    return FindCoordinatorResponse(coordinators=[_no_coordinator(key, code) for key in request.coordinator_keys])


API = Api(FindCoordinatorRequest, 0, 6, handle, refuse, 0)

"""KafkaClient.request(): one request of any API, sent as it stands, for what no client has a method for.

The response is returned as it came. The caller decides whether an error code in it is a failure, retriable, or expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

from levada.base import flow
from levada.base.flow import ANY_NODE, Call, Flow
from levada.client.network.api_versions import BrokerVersions, handshake_request
from levada.client.requests.destination import Controller, ThisNode
from levada.errors import broker_error
from levada.protocol.api import APIS
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.schema import Request

R = TypeVar("R")

CONTROLLER: Final = "controller"

Destination: TypeAlias = int | Literal["controller"] | flow.Destination | None
"""A node id; "controller", the node that metadata names; any other destination; or None for the least loaded node."""


def request(message: Request[R], *, node: Destination = ANY_NODE, version: int | None = None, timeout_ms: int | None = None) -> Flow[R]:
    """Send a request once and return the response; None for a Produce with acks=0, which has no response.

    version: None for the newest version that both sides have released; an unreleased version must be given. timeout_ms: the time for the
    response; None for request.timeout.ms. Raises UnsupportedVersionError before anything is sent, ConnectError, DisconnectError, and
    ProtocolError for a response that cannot be read.
    """
    target = Controller() if node == CONTROLLER else ThisNode(node) if isinstance(node, int) else node
    bounds = {} if version is None else {"min_version": version, "max_version": version}
    expect_response = not (isinstance(message, ProduceRequest) and message.acks == 0)
    response: R = yield Call(message, target, timeout_ms, expect_response=expect_response, may_block=True, **bounds)
    return response


def api_versions(*, node: Destination = ANY_NODE) -> Flow[Mapping[str, tuple[int, int]]]:
    """Return the versions that both a node and levada support, by API name: the first and the last one.

    Raises as request() does, and BrokerError if the node refuses.
    """
    reply = yield from request(handshake_request(), node=node)
    if reply.error_code:
        raise broker_error(reply.error_code, "ApiVersions")
    return shared_versions(BrokerVersions.of(reply))


def shared_versions(spoken: BrokerVersions) -> Mapping[str, tuple[int, int]]:
    """Return the versions that both a broker and levada support, by API name: the first and the last one."""
    theirs = spoken.ranges
    shared = {api.NAME: _shared(api, *theirs[key]) for key, api in APIS.items() if key in theirs}
    return {name: span for name, span in shared.items() if span[0] <= span[1]}


def _shared(api: type[Request], oldest: int, newest: int) -> tuple[int, int]:
    return max(api.MIN_VERSION, oldest), min(api.MAX_VERSION, newest)

"""Setting up a connection, top to bottom, once its transport is ready: ApiVersions, then authentication.

A set-up flow is a generator: it yields what to ask, is resumed with the answer's bytes, and returns what the broker speaks. It does not
use the versions that user requests are sent with, because it is what finds them out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from levada.client.api_versions import HANDSHAKE_CORRELATION_ID, AnyFrame, BrokerVersions, handshake_request, known_version, read_reply
from levada.client.connection_key import ConnectionKey
from levada.client.setup.states import ConnectionEvent
from levada.client.throttling import throttle_ms
from levada.error_codes import ErrorCode
from levada.errors import broker_error
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.schema import Request

T = TypeVar("T")

FIRST_RESERVED_CORRELATION_ID = 2_147_483_640
"""Java keeps the ids from here on for authentication (H5): they are never those of a user's request."""


class Ask(NamedTuple):
    """A request of the set-up. event: what sending it is to the table of states."""

    request: Request
    version: int
    event: ConnectionEvent
    correlation_id: int = FIRST_RESERVED_CORRELATION_ID


SetupFlow: TypeAlias = Generator[Ask, AnyFrame, T]
Authenticate: TypeAlias = Callable[[BrokerVersions], SetupFlow[None]]
"""The flow that proves to a broker who we are, given what it speaks. It raises when the broker does not believe it."""


def set_up(fallback: BrokerVersions | None, authenticate: Authenticate | None) -> SetupFlow[BrokerVersions]:
    """Do all that has to be done before requests may be sent. fallback: what brokers speak that cannot be asked."""
    versions = fallback if fallback is not None else (yield from negotiate())
    if authenticate is not None:
        yield from authenticate(versions)
    return versions


def negotiate() -> SetupFlow[BrokerVersions]:
    """Learn what the broker speaks, at most in two rounds (H8 to H10, KIP-511).

    Raises ProtocolError for an answer that cannot be read, BrokerError for an error the broker answered with.
    """
    newest = ApiVersionsRequest.MAX_VERSION
    version = newest
    reply = read_reply((yield _ask_versions(newest)), newest)
    if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = known_version(reply)
        reply = read_reply((yield _ask_versions(version)), version)
    if reply.error_code:
        raise broker_error(reply.error_code, "the broker refused ApiVersions")
    return replace(BrokerVersions.of(reply), throttle_time_ms=throttle_ms(ApiVersionsRequest, version, reply))


def _ask_versions(version: int) -> Ask:
    return Ask(handshake_request(), version, ConnectionEvent.ASKED_VERSIONS, HANDSHAKE_CORRELATION_ID)


class Setups:
    """The set-up flows of the connections that are on their way to READY."""

    def __init__(self, fallback: BrokerVersions | None, authenticate: Authenticate | None) -> None:
        self._fallback = fallback
        self._authenticate = authenticate
        self._flows: dict[ConnectionKey, SetupFlow[BrokerVersions]] = {}

    def begin(self, key: ConnectionKey) -> Ask | BrokerVersions:
        """The transport is ready: return what to ask first, or what the broker speaks when there is nothing to ask."""
        self._flows[key] = set_up(self._fallback, self._authenticate)
        return self._go_on(key, None)

    def answered(self, key: ConnectionKey, frame: AnyFrame) -> Ask | BrokerVersions:
        """Take an answer; return what to ask next, or what the broker speaks once all is done. Raises what the flow raises."""
        return self._go_on(key, frame)

    def forget(self, key: ConnectionKey) -> None:
        """The connection ended."""
        self._flows.pop(key, None)

    def _go_on(self, key: ConnectionKey, frame: AnyFrame | None) -> Ask | BrokerVersions:
        try:
            return self._flows[key].send(frame)  # type: ignore[arg-type]
        except StopIteration as done:
            del self._flows[key]
            versions: BrokerVersions = done.value
            return versions

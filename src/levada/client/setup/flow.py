"""Sets up a connection once its transport is ready: ApiVersions, then authentication.

A set-up flow is a generator. It yields a request (Ask) and is resumed with the bytes of the response, or it yields a wait for something
other than the broker, such as a token (Await). It returns the broker's versions and the lifetime of the session. Before the session ends
(KIP-368), only the authentication part of the flow runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise
from levada.client.network.api_versions import (
    HANDSHAKE_CORRELATION_ID,
    AnyFrame,
    BrokerVersions,
    handshake_request,
    known_version,
    read_reply,
)
from levada.client.network.connection_key import ConnectionKey
from levada.client.network.throttling import throttle_ms
from levada.client.setup.states import ConnectionEvent
from levada.error_codes import ErrorCode
from levada.errors import TimeoutError, broker_error
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.schema import Request
from levada.types import Node

T = TypeVar("T")

FIRST_RESERVED_CORRELATION_ID = 2_147_483_640
"""Java's client reserves the correlation ids from here on for SASL requests; other requests never have one of them."""


_WITH_FEATURES = 3
_FIRST_VERSIONS = (ApiVersionsRequest.MAX_VERSION, _WITH_FEATURES, 0)
_UNANSWERED_AT_A_VERSION = 2


class Ask(NamedTuple):
    """A request of the set-up. event: changes the state of the connection when the request is sent (setup.states)."""

    request: Request
    version: int
    event: ConnectionEvent
    correlation_id: int = FIRST_RESERVED_CORRELATION_ID


class Await(NamedTuple):
    """A wait for a promise of something other than the broker, such as a token. what: names it in error messages.

    The flow is resumed with the value of the promise. The error of the promise, or TimeoutError, is thrown into the flow.
    """

    promise: Promise[Any]
    what: str


class SetUp(NamedTuple):
    """The result of a set-up: the broker's versions, and the lifetime of the session in ms (0: the session does not end)."""

    versions: BrokerVersions
    session_lifetime_ms: int = 0


SetupStep: TypeAlias = Ask | Await
SetupFlow: TypeAlias = Generator[SetupStep, Any, T]
Authenticate: TypeAlias = Callable[[BrokerVersions, str], SetupFlow[int]]
"""The flow that authenticates a connection. It is called with the broker's versions and host name.

It returns the lifetime of the session in ms (0: the session does not end). It raises if authentication fails.
"""


def set_up(
    fallback: BrokerVersions | None, authenticate: Authenticate | None, host: str, first: int = ApiVersionsRequest.MAX_VERSION
) -> SetupFlow[SetUp]:
    """Negotiate versions and authenticate. Then other requests may be sent.

    fallback: configured versions, for brokers without ApiVersions; None sends ApiVersions. authenticate: None without SASL. host: the
    broker's host name. first: the version of ApiVersions to begin with.
    """
    versions = fallback if fallback is not None else (yield from negotiate(first))
    return SetUp(versions) if authenticate is None else (yield from prove(versions, authenticate, host))


def prove(versions: BrokerVersions, authenticate: Authenticate, host: str) -> SetupFlow[SetUp]:
    """Authenticate a connection for the first time, or again before the session ends. host: the name of the broker."""
    return SetUp(versions, (yield from authenticate(versions, host)))


def negotiate(first: int = ApiVersionsRequest.MAX_VERSION) -> SetupFlow[BrokerVersions]:
    """Request the broker's versions, in at most two requests (KIP-511). first: the version of ApiVersions to begin with.

    Raises ProtocolError for a response that cannot be read, and BrokerError for a response with an error.
    """
    version = first
    reply = read_reply((yield _ask_versions(first)), first)
    if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = known_version(reply)
        reply = read_reply((yield _ask_versions(version)), version)
    if reply.error_code:
        raise broker_error(reply.error_code, "the broker refused ApiVersions")
    return replace(BrokerVersions.of(reply), throttle_time_ms=throttle_ms(ApiVersionsRequest, version, reply))


def _ask_versions(version: int) -> Ask:
    return Ask(handshake_request(), version, ConnectionEvent.ASKED_VERSIONS, HANDSHAKE_CORRELATION_ID)


class _Unanswered(NamedTuple):
    """The connections to an address that ended without a response to ApiVersions.

    ends: how many ended so at the current version, 0 or 1; a second one changes the version. ended_ms: when the last one ended, in ms.
    has_untried: whether a version is left that has not failed twice.
    """

    ends: int
    ended_ms: int
    has_untried: bool


_NO_END = _Unanswered(0, -1, has_untried=True)


class FirstVersions:
    """The version of ApiVersions to begin with at each address: the newest, unless the broker closes the connection because of that
    version.

    Kafka brokers answer UNSUPPORTED_VERSION to a version that they do not support (KIP-511). Azure Event Hubs resets the connection
    instead. If two connections in a row to an address end without a response, the next version to try is 3, then 0, then the newest again.
    One connection proves nothing, because a broker that stops closes its connections, too. It closes all of them at once, so the second
    connection must begin after the first has ended.
    """

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._ends: dict[str, _Unanswered] = {}

    def of(self, address: str) -> int:
        """Return the version of ApiVersions to begin with at an address."""
        return _FIRST_VERSIONS[self._steps.get(address, 0)]

    def unanswered(self, address: str, began_ms: int, now_ms: int) -> bool:
        """Record that a connection ended without a response to ApiVersions. Return whether a version is left that has not failed twice.

        began_ms: when the connection was begun, in ms. It does not count if it was begun before the last one ended.
        """
        before = self._ends.get(address, _NO_END)
        if began_ms <= before.ended_ms:
            return before.has_untried
        ends = before.ends + 1
        if ends == _UNANSWERED_AT_A_VERSION:
            ends = 0
            self._steps[address] = (self._steps.get(address, 0) + 1) % len(_FIRST_VERSIONS)
        has_untried = ends > 0 or self._steps[address] > 0
        self._ends[address] = _Unanswered(ends, now_ms, has_untried)
        return has_untried

    def answered(self, address: str, versions: BrokerVersions) -> BrokerVersions:
        """Record the response of a broker. Return its versions, without the versions of ApiVersions at which it closes the connection.

        Responses of version 0 do not have the cluster's features, which transactions need. If a broker answers version 0 and supports
        version 3, the next connection begins with the newest version again.
        """
        self._ends.pop(address, None)
        first = self.of(address)
        oldest, newest = versions.ranges.get(ApiVersionsRequest.API_KEY, (0, 0))
        if first == 0 and newest >= _WITH_FEATURES:
            self._steps.pop(address, None)
        if newest <= first:
            return versions
        return replace(versions, ranges={**versions.ranges, ApiVersionsRequest.API_KEY: (oldest, first)})

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Forget addresses that are no longer part of the cluster."""
        if self._steps or self._ends:
            addresses = {node.address for node in nodes}
            self._steps = {address: step for address, step in self._steps.items() if address in addresses}
            self._ends = {address: end for address, end in self._ends.items() if address in addresses}


class _Running:
    """An unfinished set-up. waits_for: the Await that its flow has yielded, if any. deadline_ms: when this wait ends."""

    __slots__ = ("deadline_ms", "flow", "waits_for")

    def __init__(self, flow: SetupFlow[SetUp]) -> None:
        self.flow = flow
        self.waits_for: Await | None = None
        self.deadline_ms = NEVER_MS


class Setups:
    """The set-up flows of all connections. patience_ms: how long a flow waits for something other than the broker, such as a token.

    begin(), begin_again(), answered() and go_on() return the next step: a request, a wait, or the result.
    """

    def __init__(self, fallback: BrokerVersions | None, patience_ms: int) -> None:
        self.authenticate: Authenticate | None = None
        self.first_versions = FirstVersions()
        self._fallback = fallback
        self._patience_ms = patience_ms
        self._running: dict[ConnectionKey, _Running] = {}
        self._waiting: dict[ConnectionKey, _Running] = {}

    def begin(self, key: ConnectionKey, node: Node, now_ms: int) -> SetupStep | SetUp:
        """Start the set-up of a connection whose transport is ready. Return the first step."""
        first = self.first_versions.of(node.address)
        self._running[key] = _Running(set_up(self._fallback, self.authenticate, node.host, first))
        return self._resume(key, None, now_ms)

    def begin_again(self, key: ConnectionKey, host: str, versions: BrokerVersions, now_ms: int) -> SetupStep | SetUp:
        """Authenticate again, because the session is about to end. Return the first step.

        host: the name of the broker, for the login mechanism.
        """
        assert self.authenticate is not None, "a connection without a login has no session that ends"
        self._running[key] = _Running(prove(replace(versions, throttle_time_ms=0), self.authenticate, host))
        return self._resume(key, None, now_ms)

    def answered(self, key: ConnectionKey, frame: AnyFrame, now_ms: int) -> SetupStep | SetUp:
        """Pass a response to the flow; return the next step. Raises the errors of the flow."""
        return self._resume(key, frame, now_ms)

    def due(self, now_ms: int) -> list[ConnectionKey]:
        """Return the connections whose wait for something other than the broker, such as a token, is over."""
        return [key for key, run in self._waiting.items() if now_ms >= run.deadline_ms or (run.waits_for and run.waits_for.promise.done)]

    def go_on(self, key: ConnectionKey, now_ms: int) -> SetupStep | SetUp:
        """Resume the flow of a connection that due() has returned; return the next step. Raises the errors of the flow."""
        running = self._waiting.pop(key)
        wait, running.waits_for = running.waits_for, None
        assert wait is not None
        if not wait.promise.done:
            late = TimeoutError(f"{wait.what}: not there within {self._patience_ms} ms")
            return self._take(key, lambda: running.flow.throw(late), now_ms)
        if (error := wait.promise.error) is not None:
            return self._take(key, lambda: running.flow.throw(error), now_ms)
        return self._resume(key, wait.promise.result(), now_ms)

    def waits_for(self, key: ConnectionKey) -> str:
        """Return the text "still waits for ..." if a connection waits for something other than the broker, such as a token; else ""."""
        running = self._waiting.get(key)
        return "" if running is None or running.waits_for is None else f"still waits for {running.waits_for.what}"

    def next_deadline_ms(self) -> int:
        """Return the time, in ms, by which the next wait ends; 0 if a wait has ended already, NEVER_MS if there is none."""
        if not self._waiting:
            return NEVER_MS
        waits = self._waiting.values()
        return 0 if any(run.waits_for and run.waits_for.promise.done for run in waits) else min(run.deadline_ms for run in waits)

    def forget(self, key: ConnectionKey) -> None:
        """Close the set-up flow of a connection that has ended."""
        self._waiting.pop(key, None)
        if (running := self._running.pop(key, None)) is not None:
            running.flow.close()

    def _resume(self, key: ConnectionKey, value: Any, now_ms: int) -> SetupStep | SetUp:
        return self._take(key, lambda: self._running[key].flow.send(value), now_ms)

    def _take(self, key: ConnectionKey, resume: Callable[[], SetupStep], now_ms: int) -> SetupStep | SetUp:
        try:
            step = resume()
        except StopIteration as done:
            del self._running[key]
            end: SetUp = done.value
            return end
        if isinstance(step, Await):
            running = self._waiting[key] = self._running[key]
            running.waits_for, running.deadline_ms = step, now_ms + self._patience_ms
        return step

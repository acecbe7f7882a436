"""NetworkClient: sends requests over connections, matches the responses, and notices what fails. As in Java.

A connection is named by its key, or by a node id alone, which means the node's general connection. Nothing here waits. `ready` returns
False and begins to connect; the caller asks again later. `send` passes a request to the connection and returns a Promise. The engine calls
`complete` with what the network did, and `expire` when time has passed. Promises are settled after all state is up to date, in order. Each
is settled exactly once: with the response, or with a DisconnectError that says why, a ProtocolError for a response that cannot be read, an
UnsupportedVersionError or UnwritableError when nothing was sent, or the error of close().

The package `setup` decides which requests set up a connection or renew its session. They pass through here as requests whose promise is
None. The work of a step is in proportion to what happened: expire() looks at requests only when one may have timed out, and at nodes only
when metadata has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from random import Random
from typing import Any

from levada.base.promise import Promise
from levada.client.driver_interface import DeferredLog, Ended
from levada.client.failures import Failures, advertised_by
from levada.client.metadata.metadata import Metadata
from levada.client.network.api_versions import AnyFrame, BrokerVersions
from levada.client.network.connection_key import ConnectionKey, Peer, key_of
from levada.client.network.connection_states import Connection, ConnectionStates
from levada.client.network.in_flight import InFlightRequest, InFlightRequests
from levada.client.network.node_choice import NodeChoice
from levada.client.network.throttling import throttle_ms
from levada.client.setup.flow import FIRST_RESERVED_CORRELATION_ID, Ask, Await, SetUp, Setups, SetupStep
from levada.client.setup.states import BEING_SET_UP, ESTABLISHED, ConnectionEvent, ConnectionState
from levada.errors import (
    AuthenticationError,
    BootstrapError,
    DisconnectError,
    IllegalStateError,
    KafkaError,
    MetadataTimeout,
    ProtocolError,
    ProxyAuthenticationError,
    SslAuthenticationError,
    TimeoutError,
)
from levada.net.diagnose import is_invalid_peer
from levada.net.selectable import ChannelState, Disconnect, Ending, NetEvents, Selectable
from levada.protocol.frame import decode_response, encode_request_parts, response_correlation_id
from levada.protocol.schema import Request
from levada.types import Node

_LARGE_REQUEST_BYTES = 1_000_000
_TOO_LARGE = (
    f" with a request of more than {_LARGE_REQUEST_BYTES:,} bytes under way; if that repeats, the broker does not accept such a request: "
    "set max.request.size lower (below 1046528 for Azure Event Hubs)"
)
"""Brokers close the connection instead of refusing such a request, and a service may accept less than Kafka's 100 MiB."""


class NetworkClient:
    """The requests and connections of one client.

    update_due: returns whether a metadata request has to be sent first; MetadataUpdater sets it. setups: sets up connections, logins
    included. ever_answered: whether a broker has answered a request other than those of a set-up; a listener that refuses the login answers
    only those. changes: a counter that grows whenever it may have changed whether a request can be sent. held_back: whether a request was
    refused only because a metadata request has to be sent first. in_flight, states: public for metrics.
    """

    def __init__(
        self,
        *,
        selectable: Selectable,
        metadata: Metadata,
        states: ConnectionStates,
        in_flight: InFlightRequests,
        setups: Setups,
        failures: Failures,
        random: Random,
        client_id: str,
        log: DeferredLog,
        request_timeout_ms: int,
    ) -> None:
        self.update_due: Callable[[int], bool] = lambda now_ms: False
        self.ever_answered = self.held_back = False
        self.changes = 0
        self.features = states.features
        self._selectable = selectable
        self._metadata = metadata
        self.states = states
        self.client_id = client_id
        self.log = log
        self._request_timeout_ms = request_timeout_ms
        self.in_flight = in_flight
        self.setups = setups
        self._failures = failures
        choice = NodeChoice(metadata, states, self.in_flight, random, self._usable)
        self.least_loaded_node, self.shortest_delay_ms = choice.least_loaded_node, choice.shortest_delay_ms
        self.has_usable_node = choice.has_usable_node
        self._endpoints: dict[ConnectionKey, Node] = {}
        self._known_snapshot = metadata.snapshot
        self._settled: list[tuple[Promise[Any], Any, BaseException | None]] = []
        self._just_heard: Collection[Peer] = ()
        self._correlation_id = 0
        self._ended: Ended | None = None

    # Asking

    def ready(self, peer: Peer, now_ms: int) -> bool:
        """Return whether a request may be sent now. If there is no connection, begin to connect, unless the back-off forbids it.

        If the session is about to end, begin to authenticate again.
        """
        if self.is_ready(peer, now_ms):
            return True
        self._connect_if_allowed(key_of(peer), now_ms)
        return False

    def is_ready(self, peer: Peer, now_ms: int) -> bool:
        """Return whether a request of the program may be sent now. False while a metadata request has to be sent first."""
        if self._usable(key_of(peer), now_ms) is None:
            return False
        if self.update_due(now_ms):
            self.held_back = True
            return False
        return True

    def ready_for_metadata(self, node_id: int, now_ms: int) -> bool:
        """Return whether a metadata request may be sent now. Otherwise connect or authenticate again, as ready() does."""
        key = key_of(node_id)
        if self._usable(key, now_ms) is not None:
            return True
        self._connect_if_allowed(key, now_ms)
        return False

    def state(self, peer: Peer) -> ConnectionState:
        """Return the state of a connection."""
        return self.states.state(peer)

    def knows(self, peer: Peer) -> bool:
        """Whether metadata has the node of a connection, or another response has named its address."""
        return self._node(key_of(peer)) is not None

    def learn_endpoint(self, key: ConnectionKey, node: Node) -> None:
        """Note the address of a node from a response other than Metadata: FindCoordinator returns the coordinator's address."""
        self._endpoints[key] = node

    def losses(self, peer: Peer) -> int:
        """Return how often a connection has ended or could not be established."""
        return 0 if (known := self.states.get(key_of(peer))) is None else known.losses

    def poll_delay_ms(self, peer: Peer, now_ms: int) -> int:
        """Return for how many milliseconds ready() need not be called again: the rest of the throttle time, back-off or connection set-up.

        NEVER_MS means that no time is known; the next event of the connection decides. 0: call ready() now.
        """
        return self.states.delay_ms(peer, now_ms)

    def in_flight_count(self, peer: Peer) -> int:
        """Return the number of requests of a connection without a response."""
        return self.in_flight.count(key_of(peer))

    def versions(self, peer: Peer) -> BrokerVersions | None:
        """Return the API versions of the broker of a connection; None while they are not known."""
        return None if (known := self.states.get(key_of(peer))) is None else known.versions

    def version_for(self, peer: Peer, request_type: type[Request], min_version: int = 0, max_version: int = 32767) -> int:
        """Return the version in which a request would be sent: the newest one from min_version to max_version that both sides support.

        Raises UnsupportedVersionError, and IllegalStateError before the connection is ready.
        """
        key = key_of(peer)
        known = self.states.get(key)
        if known is None:
            raise IllegalStateError(f"{key} has not said what it speaks")
        return known.version_for(request_type, min_version, max_version)

    def failures(self) -> dict[str, str]:
        """Return a text for each address that could not be used: the newest cause of failure, or the state of an attempt that is still
        running.
        """
        trying = {
            known.node.address: self._failures.so_far(known, self._selectable.ending_if_late(known.key), self.setups.waits_for(known.key))
            + advertised_by(known, self._metadata.snapshot)
            for known in self.states
            if known.state in BEING_SET_UP
        }
        return {**trying, **self._failures.causes()}

    def bootstrap_error(self, waited_s: float) -> BootstrapError | AuthenticationError:
        """Return the error for a client that never reached a broker. It has the reason why authentication failed, or a text for each
        address.

        waited_s: how long the call has waited, in seconds.
        """
        return self._failures.bootstrap_error(waited_s, self.failures(), is_final=self.unrecoverable)

    @property
    def unrecoverable(self) -> bool:
        """Whether calls fail because no broker was ever reached and none will be.

        That is so if every address refuses this client or belongs to another kind of server, such as a web server; with
        bootstrap.wait=false, if every address has failed.
        """
        return not self.ever_answered and all(self._failures.is_given_up(node.address) for node in self._metadata.snapshot.nodes.values())

    # Acting

    def send(
        self,
        peer: Peer,
        request: Request,
        now_ms: int,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int = 32767,
        expect_response: bool = True,
    ) -> Promise[Any]:
        """Send a request over a connection that is ready. Raises IllegalStateError if it is not ready, and the error of close() after it.

        timeout_ms: the time for the response; None for request.timeout.ms. The promise resolves with the response; with None, once the
        request is written, if expect_response is False. It is rejected with DisconnectError, ProtocolError, UnsupportedVersionError or
        UnwritableError (for these two nothing was sent), or the error of close(), but never during this call.
        """
        key = key_of(peer)
        if self._ended is not None:
            raise self._ended(f"a {request.NAME} request")
        if (known := self._usable(key, now_ms)) is None:
            raise IllegalStateError(f"a {request.NAME} request was sent to {key}, which is not ready")
        promise: Promise[Any] = Promise()
        try:
            version = known.version_for(type(request), min_version, max_version)
            self._send(key, request, version, self._next_correlation_id(), promise, now_ms, timeout_ms, expect_response)
        except KafkaError as error:
            self._settled.append((promise, None, error))
        return promise

    def disconnect(self, peer: Peer, now_ms: int) -> None:
        """Close a connection. Its back-off begins, and its requests are rejected with the next poll."""
        key = key_of(peer)
        if self.states.state(key) is not ConnectionState.DISCONNECTED:
            self._close(key, "disconnected on request")
            self._lose(key, now_ms, Disconnect(ChannelState.LOCAL_CLOSE, "", Ending.LOCAL))

    def abandon(self, peer: Peer, promise: Promise[Any], now_ms: int) -> None:
        """Note that the caller does not need a response any more: if no other response is expected on the connection, close it."""
        oldest = self.in_flight.oldest(key_of(peer))
        if oldest is not None and oldest.promise is promise and self.in_flight.count(key_of(peer)) == 1:
            self.disconnect(peer, now_ms)

    def close(self, ended: Ended) -> None:
        """Close every connection and reject the requests in flight. ended: makes the errors."""
        self._ended = ended
        for known in self.states:
            self._close(known.key, "the client is closed")
            for request in self.in_flight.clear(known.key):
                self._reject(request, ended(f"{request}"))
        self.settle()

    # Driven by the engine

    def expire(self, now_ms: int) -> None:
        """Do what is due without a network event: close connections whose set-up or requests took too long, resume set-ups whose wait for
        credentials is over, and settle the promises of requests that failed before they were sent.

        A process that was suspended for a while finds responses waiting, and reads one per connection and step. So if a connection has
        delivered a response in this step, its requests do not time out before the next step.
        """
        if self._known_snapshot is not self._metadata.snapshot:
            self._known_snapshot = self._metadata.snapshot
            self.setups.first_versions.keep_only(self._known_snapshot.nodes.values())
            for known in self.states:
                self._forget_if_left(known.key)
        heard, self._just_heard = self._just_heard, ()
        if now_ms >= self.states.next_deadline_ms:
            self._expire_setups(now_ms)
        if now_ms >= self.in_flight.next_deadline_ms:
            self._expire_requests(now_ms, heard)
        for key in self.setups.due(now_ms):
            self.changes += 1
            self._step_set_up(key, now_ms, self.setups.go_on)
        if self._settled:
            self.settle()

    def _expire_setups(self, now_ms: int) -> None:
        for key in self.states.setup_timed_out(now_ms):
            ending = self._selectable.ending_if_late(key)
            self._close(key, "not connected in time")
            self._lose(key, now_ms, Disconnect(ChannelState.NOT_CONNECTED, "", ending))

    def _expire_requests(self, now_ms: int, heard: Collection[Peer]) -> None:
        for key, request in [(key_of(peer), late) for peer, late in self.in_flight.timed_out(now_ms).items() if peer not in heard]:
            text = f"{request} was not answered within {request.timeout_ms} ms"
            self._close(key, text)
            self._lose(key, now_ms, Disconnect(ChannelState.READY, text, Ending.UNANSWERED))

    def complete(self, events: NetEvents, now_ms: int) -> None:
        """Process network events in the order of Java's NetworkClient, then settle the promises."""
        if events.received:
            self._just_heard = [key for key, _ in events.received]
        if events:
            self.changes += 1
        for key in events.sent:
            self._written(key)
        for key, frame in events.received:
            self._received(key, frame, now_ms)
        for key, disconnect in events.disconnected.items():
            if self.states.state(key) is not ConnectionState.DISCONNECTED:
                self._lose(key, now_ms, disconnect)
        for key in events.connected:
            if (known := self.states.get(key)) is not None and known.state is ConnectionState.CONNECTING:
                self._step_set_up(key, now_ms, self.setups.begin, known.node)
        self.settle()

    def settle(self) -> None:
        """Resolve or reject the promises whose outcome is known. If a callback raises an error, the error is logged, and other callbacks
        still run.
        """
        while self._settled:
            settled, self._settled = self._settled, []
            for promise, value, error in settled:
                try:
                    promise.resolve(value) if error is None else promise.reject(error)
                except Exception as fault:
                    self.log.error("a callback of a request failed; this is a bug in levada", error=fault)

    def next_deadline_ms(self) -> int:
        """Return the time, in ms, of the next expire()."""
        return 0 if self._settled else min(self.states.next_deadline_ms, self.in_flight.next_deadline_ms, self.setups.next_deadline_ms())

    # Connections

    def _node(self, key: ConnectionKey) -> Node | None:
        return self._endpoints.get(key) or self._metadata.node(key.node_id)

    def _usable(self, key: ConnectionKey, now_ms: int) -> Connection | None:
        """Return the connection if a request can be written to it now; else None."""
        known = self.states.get(key)
        if known is None or known.state is not ConnectionState.READY or now_ms < known.throttled_until_ms:
            return None
        if now_ms >= known.reauthenticate_ms:
            return None
        return known if self.in_flight.can_send_more(key) else None

    def _connect_if_allowed(self, key: ConnectionKey, now_ms: int) -> None:
        node = self._node(key)
        if node is None or self._ended is not None:
            return
        known = self.states.get(key)
        if known is not None and known.state in ESTABLISHED:
            self._authenticate_again_if_due(known, now_ms)
            return
        if known is not None and known.node[:3] != node[:3]:
            self._move(key, now_ms)
        if self.states.can_connect(key, now_ms):
            self.states.connecting(key, node, now_ms)
            self._selectable.connect(key, node.host, node.port, now_ms)

    def _authenticate_again_if_due(self, known: Connection, now_ms: int) -> None:
        """If the session is about to end, authenticate again, as soon as no request is being written (KIP-368).

        Java's client, too, authenticates again only when it has something to send.
        """
        key = known.key
        if known.state is not ConnectionState.READY or now_ms < known.reauthenticate_ms or self.in_flight.is_writing(key):
            return
        assert known.versions is not None, "a connection that is ready has said what it speaks"
        self.states.session_ends(key)
        self._step_set_up(key, now_ms, self.setups.begin_again, known.node.host, known.versions)

    def _move(self, key: ConnectionKey, now_ms: int) -> None:
        """Close a connection that is not established, and forget its failures, because the node has a new address.

        An established connection is used until it ends by itself: closing it would have the requests in flight sent again.
        """
        self.disconnect(key, now_ms)
        self._forget(key)

    def _forget_if_left(self, key: ConnectionKey) -> None:
        """Forget a connection that has ended, if its address is no longer part of the cluster."""
        known = self.states.get(key)
        if known is None or known.state is not ConnectionState.DISCONNECTED:
            return
        if key.node_id >= 0 and self._metadata.snapshot.is_bootstrap:
            known.chances_used = 0  # Most likely it will be named again: with new chances then, but no shorter back-off.
            return
        node = self._metadata.node(key.node_id)
        if node is None or (key not in self._endpoints and node[:3] != known.node[:3]):
            self._endpoints.pop(key, None)
            self._forget(key)

    def _forget(self, key: ConnectionKey) -> None:
        self._failures.forget(key)
        self.states.forget(key)
        self._selectable.forget(key)

    def _close(self, key: ConnectionKey, reason: str) -> None:
        if self.states.state(key) is not ConnectionState.DISCONNECTED:
            address = self.address(key)
            self.log.debug("closing the connection to %s (%s): %s", address, key, reason, node_id=key.node_id, address=address)
        self._selectable.close(key)

    def _step_set_up(self, key: ConnectionKey, now_ms: int, step: Callable[..., SetupStep | SetUp], *about: object) -> None:
        """Take a step of a connection's set-up that does not follow a response. step: the method of Setups."""
        try:
            self._set_up(key, step(key, *about, now_ms), now_ms)
        except KafkaError as error:
            self._unreadable(key, None, error, now_ms)

    def _set_up(self, key: ConnectionKey, outcome: SetupStep | SetUp, now_ms: int) -> None:
        """Carry out a step of the set-up: send its request, begin its wait, or begin to use the connection."""
        if isinstance(outcome, Ask):
            self._send(key, outcome.request, outcome.version, outcome.correlation_id, None, now_ms)
            self.states.asked(key, outcome.event)
        elif isinstance(outcome, Await):
            self.states.asked(key, ConnectionEvent.WAITS_FOR_CREDENTIALS)
        else:
            address = self.address(key)
            spoken = self.setups.first_versions.answered(address, outcome.versions)
            self.states.ready(key, outcome._replace(versions=spoken), now_ms)
            self._failures.works(key, address)
            if outcome.versions.throttle_time_ms:
                self._throttle(key, outcome.versions.throttle_time_ms, now_ms)

    def _send(
        self,
        key: ConnectionKey,
        request: Request,
        version: int,
        correlation_id: int,
        promise: Promise[Any] | None,
        now_ms: int,
        timeout_ms: int | None = None,
        expect_response: bool = True,
    ) -> None:
        frame = encode_request_parts(request, version, correlation_id, self.client_id)
        in_flight = InFlightRequest(
            type(request),
            version,
            correlation_id,
            promise,
            now_ms=now_ms,
            timeout_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
            size=sum(map(len, frame)),
            expect_response=expect_response,
        )
        self.in_flight.add(key, in_flight)
        if self._selectable.send(key, frame):
            in_flight.written = True
            if not expect_response:
                self._written(key)

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) % FIRST_RESERVED_CORRELATION_ID
        return self._correlation_id

    # What came back

    def _written(self, key: ConnectionKey) -> None:
        request = self.in_flight.written(key)
        if request is not None and request.promise is not None:
            self._settled.append((request.promise, None, None))

    def _received(self, key: ConnectionKey, frame: AnyFrame, now_ms: int) -> None:
        known = self.states.get(key)
        if known is None or known.state in (ConnectionState.DISCONNECTED, ConnectionState.CONNECTING):
            return
        request: InFlightRequest | None = None
        try:
            request = self.in_flight.answered(key, response_correlation_id(frame), len(frame), now_ms)
            if request.promise is None:
                self._set_up(key, self.setups.answered(key, frame, now_ms), now_ms)
            else:
                self._answered(known, request, request.promise, frame, now_ms)
        except KafkaError as error:
            self._unreadable(key, request, error, now_ms)

    def _answered(self, known: Connection, request: InFlightRequest, promise: Promise[Any], frame: AnyFrame, now_ms: int) -> None:
        response = decode_response(request.request_type, request.version, frame)
        if pause_ms := throttle_ms(request.request_type, request.version, response):
            self._throttle(known.key, pause_ms, now_ms)
        known.has_answered = True
        if not self.ever_answered:
            self.ever_answered = True
            self._failures.reached(known.node.address)
        self._settled.append((promise, response, None))

    def _throttle(self, key: ConnectionKey, pause_ms: int, now_ms: int) -> None:
        self.states.throttle(key, now_ms + pause_ms)
        self.in_flight.throttled(key, pause_ms)

    def _unreadable(self, key: ConnectionKey, request: InFlightRequest | None, error: KafkaError, now_ms: int) -> None:
        """Close a connection because its set-up failed, or because of a response that breaks the protocol or belongs to no request.

        Nothing that comes after such a response can be trusted. request: the request that the response belongs to; it fails with `error`.
        None if there is no such request.
        """
        self._close(key, str(error))
        if request is not None:
            self._reject(request, error)
        if isinstance(error, AuthenticationError) and not error.retriable:
            self._refused(key, error)
        ending = Ending.UNREADABLE if isinstance(error, ProtocolError) else Ending.FAILED
        self._lose(key, now_ms, Disconnect(ChannelState.READY, str(error), ending))

    def _refused(self, key: ConnectionKey, error: AuthenticationError) -> None:
        self._metadata.fail(self._failures.refused(key, self.address(key), error))

    def _lose(self, key: ConnectionKey, now_ms: int, disconnect: Disconnect) -> None:
        """Handle the end of a connection: begin its back-off, and reject its requests, oldest first.

        Unless it was closed on request or because it was idle, also note the failure, and request a metadata update.
        """
        known = self.states.get(key)
        cause = self._failures.diagnose(disconnect, known, waited_for=self.in_flight.count(key))
        cause += advertised_by(known, self._metadata.snapshot)
        if disconnect.ending in (Ending.CLOSED, Ending.RESET) and self.in_flight.largest(key) > _LARGE_REQUEST_BYTES:
            cause += _TOO_LARGE
        address = self.address(key)
        # A closed idle connection is not an error. It becomes one when reconnecting fails.
        state = self.states.state(key)
        idle = state in ESTABLISHED and not self.in_flight.count(key)
        hung_up = state is ConnectionState.CHECKING_API_VERSIONS and disconnect.ending in (Ending.CLOSED, Ending.RESET)
        asks_anew = hung_up and known is not None and self.setups.first_versions.unanswered(address, known.last_attempt_ms, now_ms)
        self.states.disconnected(key, now_ms)
        self.setups.forget(key)
        self.changes += 1
        timed_out = disconnect.ending is Ending.UNANSWERED
        for request in self.in_flight.clear(key):
            self._reject(request, DisconnectError(f"{request} to {address} ({key}) got no answer: {cause}", timed_out=timed_out))
        if disconnect.ending is Ending.TLS_REFUSED:
            self._refused(key, SslAuthenticationError(cause))
        if disconnect.ending is Ending.PROXY_REFUSED:
            self._refused(key, ProxyAuthenticationError(cause))
        if disconnect.ending not in (Ending.LOCAL, Ending.IDLE):
            level = logging.INFO if idle else logging.WARNING
            is_invalid = is_invalid_peer(disconnect.first_bytes)
            self._failures.note(known, key, address, cause, level=level, invalid_peer=is_invalid, asks_anew=asks_anew)
            self._metadata.request_update()

    def _reject(self, request: InFlightRequest, error: BaseException) -> None:
        if request.promise is not None:
            self._settled.append((request.promise, None, error))

    def address(self, peer: Peer) -> str:
        """Return the host and port of a connection, as in bootstrap.servers; before its first attempt, the name of its key."""
        known = self.states.get(key_of(peer))
        return str(key_of(peer)) if known is None else known.node.address

    def refusal(self) -> AuthenticationError | None:
        """Return why authentication failed, if it failed with all nodes of the cluster; else None."""
        return self._failures.refusal_by_all(self._metadata.snapshot.nodes)

    def connect_error(self, peer: Peer) -> KafkaError:
        """Return the error for a call that could not reach a node: AuthenticationError if authentication with the node failed, else
        ConnectError.
        """
        return self._failures.error(key_of(peer), self.address(peer))


def timeout_error(network: NetworkClient, error: TimeoutError, timeout_s: float | None) -> TimeoutError | AuthenticationError:
    """Return the error to raise for a call that timed out, with the failures of brokers that are known.

    If no broker was ever reached, the error is a BootstrapError or AuthenticationError, because that is the cause.
    """
    failures = network.failures()
    if not failures or timeout_s is None or type(error) not in (TimeoutError, MetadataTimeout):
        return error
    if not network.ever_answered:
        return network.bootstrap_error(timeout_s)
    told = type(error)("\n".join([str(error), *(f"  {address}  {cause}" for address, cause in failures.items())]))
    told.outcomes, told.results = error.outcomes, error.results
    return told

"""Setting up a connection: what TLS and SASL will be is only another step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from levada.client.network.api_versions import BrokerVersions
from levada.client.setup.flow import Ask, SetupFlow
from levada.client.setup.states import TRANSITIONS, ConnectionEvent, ConnectionState
from levada.errors import UnsupportedSaslMechanismError, broker_error
from levada.net.selectable import ChannelState, Ending
from levada.net.selector import Selector
from levada.net.transport import PlaintextTransport
from levada.protocol.frame import decode_response
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from levada.testing import Simulation
from settings_kit import new_selector
from sim_kit import SPOKEN, SimClient, server, versions_reply

PATIENCE_S = 5
MECHANISM = "LEVADA-TEST"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=11) as sim:
        yield sim


def authenticate(versions: BrokerVersions, host: str) -> SetupFlow[int]:
    """A fake mechanism of two rounds."""
    version = versions.version_for(SaslHandshakeRequest)
    for _ in range(2):
        frame = yield Ask(SaslHandshakeRequest(mechanism=MECHANISM), version, ConnectionEvent.ASKED_TO_AUTHENTICATE)
        reply = decode_response(SaslHandshakeRequest, version, frame)
        if reply.error_code:  # type: ignore[attr-defined]
            raise broker_error(reply.error_code, "the broker refused to authenticate us")  # type: ignore[attr-defined]
    return 0


def kafka(sim: Simulation, answer: Any) -> Any:
    return server(sim, {ApiVersionsRequest: lambda frame: versions_reply({**SPOKEN, 17: (0, 1)}), SaslHandshakeRequest: answer})


def test_authentication_is_one_more_step_before_the_first_request(sim: Simulation) -> None:
    node = kafka(sim, lambda frame: SaslHandshakeResponse(mechanisms=[MECHANISM]))
    client = SimClient(sim, authenticate=authenticate)
    client.ask(MetadataRequest(topics=[]))
    names = [frame.request.NAME for frame in node.asked]
    assert names[:3] == ["ApiVersions", "SaslHandshake", "SaslHandshake"]
    assert set(names[3:]) == {"Metadata"}


def test_a_connection_is_not_ready_before_the_last_step_is_answered(sim: Simulation) -> None:
    silent: list[Any] = []
    kafka(sim, lambda frame: silent.append(frame))
    client = SimClient(sim, authenticate=authenticate, request_timeout_ms=2000)
    client.network.ready(-1, sim.now_ms)
    sim.advance(500)
    assert silent
    assert client.network.state(-1) is ConnectionState.AUTHENTICATING
    assert not client.network.ready(-1, sim.now_ms)
    assert not client.network.ever_answered
    sim.advance(2000)
    assert client.network.losses(-1) > 0


def test_a_client_that_is_refused_sends_no_request_and_gets_the_cause(sim: Simulation) -> None:
    node = kafka(sim, lambda frame: SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"]))
    with pytest.raises(UnsupportedSaslMechanismError, match="refused to authenticate us"):
        SimClient(sim, authenticate=authenticate).ask(MetadataRequest(), timeout_s=3)
    assert node.count(MetadataRequest) == 0


def test_N16_requests_to_a_node_that_refused_the_client_fail_with_its_reason(sim: Simulation) -> None:
    refuses = [True]
    kafka(sim, lambda frame: SaslHandshakeResponse(error_code=33 if refuses[0] else 0, mechanisms=["PLAIN"]))
    client, began_ms = SimClient(sim, authenticate=authenticate), sim.now_ms
    with pytest.raises(UnsupportedSaslMechanismError, match="the broker refused to authenticate us") as failed:
        client.ask(MetadataRequest(topics=[]), node=-1)
    assert not failed.value.retriable
    assert sim.now_ms < began_ms + 1000, "told at once"
    refuses[0] = False
    sim.advance(5000)
    client.ask(MetadataRequest(topics=[]))


def test_N16_callers_who_wait_for_metadata_are_told(sim: Simulation) -> None:
    kafka(sim, lambda frame: SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"]))
    client = SimClient(sim, authenticate=authenticate)
    waiting = client.metadata.refreshed()
    assert sim.run_until(waiting, 1000)
    with pytest.raises(UnsupportedSaslMechanismError, match="the broker refused to authenticate us"):
        waiting.result()


def test_brokers_that_are_not_asked_for_versions_are_authenticated_all_the_same(sim: Simulation) -> None:
    node = kafka(sim, lambda frame: SaslHandshakeResponse(mechanisms=[MECHANISM]))
    fallback = BrokerVersions({3: (0, 1), 17: (0, 1)})
    SimClient(sim, authenticate=authenticate, fallback=fallback).ask(MetadataRequest(topics=[]))
    assert node.count(ApiVersionsRequest) == 0
    assert node.count(SaslHandshakeRequest) == 2


@pytest.mark.parametrize("state", [state for state in ConnectionState if state is not ConnectionState.DISCONNECTED])
def test_everything_can_end_and_only_a_set_up_makes_ready(state: ConnectionState) -> None:
    assert TRANSITIONS[state][ConnectionEvent.ENDED] is ConnectionState.DISCONNECTED
    to_ready = {event for moves in TRANSITIONS.values() for event, target in moves.items() if target is ConnectionState.READY}
    assert to_ready == {ConnectionEvent.SET_UP}


class HandshakingTransport(PlaintextTransport):
    """Says a word of its own first and wants one back, as TLS does. hosts: what it was told the other side is called."""

    hosts: list[str] = []  # noqa: RUF012

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__(sock)
        self.ready = False
        self.hosts.append(host)
        self._greeting = b"hello"
        self._answer = b""

    @property
    def wants_write(self) -> bool:  # type: ignore[override]
        return bool(self._greeting)

    def handshake(self) -> None:
        if self._greeting:
            self._greeting = self._greeting[self.write(memoryview(self._greeting)) :]
        buffer = bytearray(1)
        while len(self._answer) < len(b"welcome") and (count := self.read_into(memoryview(buffer))) is not None:
            if not count:
                raise ConnectionResetError(104, "closed during the handshake")
            self._answer += buffer
        if self._answer and not b"welcome".startswith(self._answer):
            raise OSError(71, "not a word of the handshake")
        self.ready = self._answer == b"welcome"


def serving(answer: bytes) -> tuple[socket.socket, threading.Thread]:
    """A server of one connection that answers the greeting, then echoes one frame."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            assert connection.recv(5) == b"hello"
            for byte in answer:
                with suppress(OSError):
                    connection.sendall(bytes([byte]))
            if answer == b"welcome":
                connection.sendall(connection.recv(100))

    thread = threading.Thread(target=run)
    thread.start()
    return listener, thread


def events_until(selector: Selector, condition: Any) -> None:
    for _ in range(200):
        if condition(selector.process(selector.select(100), 0)):
            return
    raise AssertionError("it did not come")


def test_a_transport_does_its_handshake_before_the_connection_is_reported() -> None:
    listener, thread = serving(b"welcome")
    HandshakingTransport.hosts.clear()
    selector = new_selector(max_frame_bytes=1000, transport=HandshakingTransport)
    try:
        selector.connect("key", "localhost", listener.getsockname()[1], 0)
        events_until(selector, lambda events: events.connected == ["key"])
        assert HandshakingTransport.hosts == ["localhost"]
        assert selector.send("key", [b"\0\0\0\1x"])
        events_until(selector, lambda events: [(key, bytes(data)) for key, data in events.received] == [("key", b"x")])
    finally:
        thread.join()
        listener.close()
        selector.shutdown()


@pytest.mark.parametrize(("answer", "ending"), [(b"nonsense", Ending.FAILED), (b"", Ending.RESET)])
def test_a_handshake_that_fails_is_a_connection_that_was_not_made(answer: bytes, ending: Ending) -> None:
    listener, thread = serving(answer)
    selector = new_selector(max_frame_bytes=1000, transport=HandshakingTransport)
    ends: list[Any] = []
    try:
        selector.connect("key", "127.0.0.1", listener.getsockname()[1], 0)
        events_until(selector, lambda events: ends.extend(events.disconnected.values()) or bool(ends))  # type: ignore[func-returns-value]
        assert (ends[0].ending, ends[0].state) == (ending, ChannelState.AUTHENTICATE)
    finally:
        thread.join()
        listener.close()
        selector.shutdown()

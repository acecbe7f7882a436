"""What clients that have not logged in, or never finish a request, may cost the broker."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from broker_kit import fetch_request, make_batch, produce_request
from levada.base.clock import NEVER_MS
from levada.broker.config.settings import BrokerSettings
from levada.broker.network import receive_memory, server
from levada.broker.network.receive_memory import LONGEST_TURN_MS, ReceiveMemory
from levada.errors import ConfigError
from levada.protocol.frame import encode_request
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest
from levada.testing import EmbeddedKafka
from wire import Wire

PATIENCE_S = 20
USERS = {"alice": "secret"}
MIB = 1 << 20


def connect(kafka: EmbeddedKafka) -> socket.socket:
    host, port = kafka.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def is_closed(sock: socket.socket) -> bool:
    """Wait until the broker closes a connection without having sent anything on it."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def log_in(wire: Wire) -> None:
    assert not wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code
    assert not wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2).error_code


# Before the login


def test_a_request_before_the_login_is_as_large_as_sasl_server_max_receive_size_at_most() -> None:
    with EmbeddedKafka(users=USERS, sasl_server_max_receive_size=1_000) as kafka, ExitStack() as stack:
        within, beyond = (stack.enter_context(closing(connect(kafka))) for _ in range(2))
        within.sendall(struct.pack(">i", 1_000))
        beyond.sendall(struct.pack(">i", 1_001))
        assert is_closed(beyond)
        within.settimeout(0.2)
        with pytest.raises(TimeoutError):
            within.recv(1)


def test_the_default_is_that_of_kafka(kafka_with_users: EmbeddedKafka) -> None:
    with closing(connect(kafka_with_users)) as sock:
        sock.sendall(struct.pack(">i", 524_289))
        assert is_closed(sock)


def test_after_the_login_requests_may_be_large() -> None:
    with EmbeddedKafka(users=USERS, sasl_server_max_receive_size=1_000) as kafka, closing(Wire(kafka.bootstrap_servers)) as wire:
        kafka.create_topic("t")
        log_in(wire)
        (topic,) = wire.ask(produce_request("t", make_batch(b"x" * 500_000)), 9).responses
        assert not topic.partition_responses[0].error_code


def test_nothing_else_is_decoded_before_the_login(kafka_with_users: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "levada.broker")
    with closing(connect(kafka_with_users)) as sock:
        body = struct.pack(">hhih", MetadataRequest.API_KEY, 9, 1, -1) + b"no request"
        sock.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(sock)
    assert "it has to log in first" in caplog.text


@pytest.fixture
def kafka_with_users() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users=USERS) as kafka:
        yield kafka


@pytest.mark.parametrize("options", [{"users": USERS}, {"security": "SSL"}, {"security": "SSL", "users": USERS}], ids=repr)
@pytest.mark.parametrize("trickles", [False, True])
def test_a_connection_that_does_not_log_in_is_closed(options: dict[str, Any], trickles: bool) -> None:
    with EmbeddedKafka(**options, connections_max_login_ms=200) as kafka, closing(connect(kafka)) as sock:
        until_s = time.monotonic() + PATIENCE_S
        sock.settimeout(0.02)
        # The beginning of a TLS record, which is an unfinished frame of Kafka's, too.
        first = iter(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" if options.get("security") else b"\0\0\1\0\0\0\0\0")
        while time.monotonic() < until_s:
            try:
                if trickles:
                    sock.sendall(bytes([next(first, 0)]))
                if sock.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


def test_logged_in_clients_and_those_that_need_not_log_in_stay() -> None:
    listeners = ["SASL_PLAINTEXT", "PLAINTEXT"]
    with EmbeddedKafka(users=USERS, listeners=listeners, connections_max_login_ms=300) as kafka, ExitStack() as stack:
        late = stack.enter_context(closing(connect(kafka)))
        logged_in = stack.enter_context(closing(Wire(kafka.bootstrap_servers)))
        plain = stack.enter_context(closing(Wire(kafka.settings_at("PLAINTEXT")["bootstrap_servers"])))
        log_in(logged_in)
        assert is_closed(late)
        time.sleep(0.4)
        for wire in (logged_in, plain):
            assert wire.ask(MetadataRequest(topics=None), 9).brokers


def test_who_does_not_log_in_keeps_nobody_out() -> None:
    with EmbeddedKafka(users=USERS, max_connections=2) as kafka, ExitStack() as stack:
        first = stack.enter_context(closing(Wire(kafka.bootstrap_servers)))
        log_in(first)
        idle = stack.enter_context(closing(connect(kafka)))
        second = stack.enter_context(closing(Wire(kafka.bootstrap_servers)))
        log_in(second)
        assert is_closed(idle)
        refused = stack.enter_context(closing(connect(kafka)))
        assert is_closed(refused)
        assert first.ask(MetadataRequest(topics=None), 9).brokers


@pytest.mark.parametrize(
    "name", ["max_connections", "connections_max_login_ms", "sasl_server_max_receive_size", "socket_request_max_bytes"]
)
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' must be at least 1, not 0"):
        BrokerSettings.of(**{name: 0})


# Unfinished requests


def test_memory_is_for_all_until_it_is_short() -> None:
    memory = ReceiveMemory(100)
    memory.hold(1, 60)
    memory.hold(2, 39)
    assert [memory.may_read(conn_id) for conn_id in (1, 2, 3)] == [True, True, True]
    memory.hold(2, 40)
    assert [memory.may_read(conn_id) for conn_id in (1, 2, 3)] == [True, False, True]
    memory.hold(1, 0)
    assert memory.may_read(2)


def test_a_request_larger_than_the_limit_can_be_finished() -> None:
    memory = ReceiveMemory(100)
    memory.hold(1, 500)
    assert memory.may_read(1)
    assert memory.late(0) is None
    assert memory.next_deadline_ms == NEVER_MS


def test_who_keeps_others_waiting_is_late_after_a_while() -> None:
    memory = ReceiveMemory(100)
    memory.hold(1, 60)
    memory.hold(2, 60)
    assert memory.late(1_000) is None
    assert memory.next_deadline_ms == 1_000 + LONGEST_TURN_MS
    assert memory.late(memory.next_deadline_ms - 1) is None
    assert memory.late(memory.next_deadline_ms) == 1
    memory.hold(1, 0)
    assert memory.late(10_000) is None
    assert memory.next_deadline_ms == NEVER_MS


def test_the_next_one_has_its_whole_turn() -> None:
    memory = ReceiveMemory(100)
    for conn_id in (1, 2, 3):
        memory.hold(conn_id, 60)
    assert memory.late(0) is None
    memory.hold(1, 0)
    assert memory.late(LONGEST_TURN_MS) is None
    assert memory.late(2 * LONGEST_TURN_MS) == 2


def test_without_a_limit_everybody_may_read() -> None:
    memory = ReceiveMemory(-1)
    memory.hold(1, 1 << 40)
    memory.hold(2, 1 << 40)
    assert memory.may_read(2)
    assert memory.late(0) is None


def send_all_that_goes(sock: socket.socket, data: bytes) -> None:
    """Send until the other side takes no more, or has closed."""
    sock.settimeout(0.3)
    with suppress(OSError):
        sock.sendall(data)
    sock.settimeout(PATIENCE_S)


def test_unfinished_requests_of_all_connections_have_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_memory, "LONGEST_TURN_MS", 300)
    with EmbeddedKafka(queued_max_request_bytes=8 * MIB) as kafka, ExitStack() as stack:
        kafka.create_topic("t", config={"max.message.bytes": str(8 * MIB)})
        hostile = [stack.enter_context(closing(connect(kafka))) for _ in range(12)]
        unfinished = struct.pack(">i", 4 * MIB) + bytes(3 * MIB)
        tracemalloc.start()
        try:
            senders = [threading.Thread(target=send_all_that_goes, args=(sock, unfinished)) for sock in hostile]
            for sender in senders:
                sender.start()
            # Small requests never wait.
            with closing(Wire(kafka.bootstrap_servers)) as wire:
                assert wire.ask(MetadataRequest(topics=None), 9).brokers
            # Large ones wait for those that were begun before.
            with closing(Wire(kafka.bootstrap_servers)) as wire:
                (topic,) = wire.ask(produce_request("t", make_batch(b"x" * 2 * MIB)), 9).responses
                assert not topic.partition_responses[0].error_code
            for sender in senders:
                sender.join()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # They would take 36 MiB. The request that was answered is in here several times.
    assert peak < 30 * MIB


@pytest.fixture
def kafka_with_endless_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedKafka]:
    """A broker with users, where no connection ever makes room for another one."""
    monkeypatch.setattr(receive_memory, "LONGEST_TURN_MS", 3_600_000)
    monkeypatch.setattr(server, "LOGIN_BYTES", 2 * MIB)
    with EmbeddedKafka(users=USERS, connections_max_login_ms=3_600_000, queued_max_request_bytes=4 * MIB) as kafka:
        kafka.create_topic("t", config={"max.message.bytes": str(8 * MIB)})
        yield kafka


def begin_logins(kafka: EmbeddedKafka, count: int, stack: ExitStack) -> list[socket.socket]:
    """Open connections that send the beginning of a login, and no more."""
    hostile = [stack.enter_context(closing(connect(kafka))) for _ in range(count)]
    for sock in hostile:
        sock.sendall(struct.pack(">i", 500_000) + bytes(400_000))
    return hostile


def produce_large(wire: Wire) -> int:
    (topic,) = wire.ask(produce_request("t", make_batch(b"x" * 3 * MIB)), 9).responses
    code: int = topic.partition_responses[0].error_code
    return code


def test_who_does_not_log_in_takes_no_memory_of_those_who_did(kafka_with_endless_turns: EmbeddedKafka) -> None:
    kafka = kafka_with_endless_turns
    with ExitStack() as stack:
        wires = [stack.enter_context(closing(Wire(kafka.bootstrap_servers))) for _ in range(2)]
        for wire in wires:
            log_in(wire)
        tracemalloc.start()
        try:
            begin_logins(kafka, 60, stack)
            for wire in wires:
                # Every answer is a step of the broker in which it reads what it has memory for.
                for _ in range(20):
                    assert wire.ask(MetadataRequest(topics=None), 9).brokers
                assert produce_large(wire) == 0
            # And small logins never wait.
            another = stack.enter_context(closing(Wire(kafka.bootstrap_servers)))
            log_in(another)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # They would take 24 MiB more. The requests that were answered are in here several times.
    assert peak < 26 * MIB


def test_what_is_sent_behind_a_login_takes_the_memory_of_those_who_did(kafka_with_endless_turns: EmbeddedKafka) -> None:
    kafka = kafka_with_endless_turns
    with ExitStack() as stack:
        client = stack.enter_context(closing(connect(kafka)))
        begin_logins(kafka, 20, stack)
        requests = [
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2),
            # No larger than what may be sent before the login, as the broker may read its size before it knows of the login.
            (produce_request("t", make_batch(b"x" * 400_000)), 9),
        ]
        client.sendall(b"".join(encode_request(request, version, index, "test") for index, (request, version) in enumerate(requests)))
        with client.makefile("rb") as answers:
            for index in range(len(requests)):
                size, found = struct.unpack(">ii", answers.read(8))
                assert found == index
                answers.read(size - 4)


def test_many_large_requests_at_once_are_all_answered() -> None:
    with EmbeddedKafka(queued_max_request_bytes=4 * MIB) as kafka, ExitStack() as stack:
        kafka.create_topic("t", config={"max.message.bytes": str(8 * MIB)})
        wires = [stack.enter_context(closing(Wire(kafka.bootstrap_servers))) for _ in range(6)]
        batch, answers = make_batch(b"x" * 3 * MIB), []

        def produce(wire: Wire) -> None:
            (topic,) = wire.ask(produce_request("t", batch), 9).responses
            answers.append(topic.partition_responses[0].error_code)

        threads = [threading.Thread(target=produce, args=(wire,)) for wire in wires]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [0] * len(wires)


def test_a_large_request_is_not_read_while_another_one_is_in_process() -> None:
    with EmbeddedKafka() as kafka, closing(Wire(kafka.bootstrap_servers)) as other, closing(connect(kafka)) as busy:
        kafka.create_topic("t", config={"max.message.bytes": str(64 * MIB)})
        busy.sendall(encode_request(fetch_request("t", max_wait_ms=600_000), 12, 1, "test"))
        # More than the buffers of both sockets hold.
        large = memoryview(encode_request(produce_request("t", make_batch(b"x" * 48 * MIB)), 9, 2, "test"))
        busy.settimeout(0.3)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < len(large):
                sent += busy.send(large[sent:])
        busy.settimeout(PATIENCE_S)
        other.ask(produce_request("t", make_batch(b"woken")), 9)
        busy.sendall(large[sent:])
        with busy.makefile("rb") as answers:
            for correlation_id in (1, 2):
                size, found = struct.unpack(">ii", answers.read(8))
                assert found == correlation_id
                answers.read(size - 4)

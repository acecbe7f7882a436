from __future__ import annotations

import os
import queue
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker_kit import fetch_request, make_batch, only_partition, produce_request
from levada.broker.network.server import BrokerServer
from levada.broker.node.node import BrokerNode
from levada.errors import ConfigError, ConnectError, IllegalStateError, UnknownTopicOrPartitionError
from levada.net.transport import PlaintextTransport
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.schema import Request, Response
from levada.record.memory_records import read_batches
from levada.testing import EmbeddedKafka

PATIENCE_S = 10
SOURCE = Path(__file__).parents[3] / "src"


class Wire:
    """A plain blocking socket that speaks Kafka."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        host, port = kafka.bootstrap_servers.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def send(self, request: Request, version: int) -> None:
        self.socket.sendall(encode_request(request, version, 1, "test"))

    def receive(self, request_type: type[Request], version: int) -> Response:
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(request_type, version, self._exactly(size))

    def ask(self, request: Request, version: int) -> Response:
        self.send(request, version)
        return self.receive(type(request), version)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            assert received, "the broker closed the connection"
            data += received
        return bytes(data)

    def is_closed_by_peer(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


class GreetedTransport(PlaintextTransport):
    """Wants a word before any request, and says one of its own, as TLS does; what came with the word is buffered."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.ready = False
        self.wants_write = False
        self._heard = b""
        self._unsaid = b"welcome"

    def handshake(self) -> None:
        buffer = bytearray(1000)
        while not self.wants_write and len(self._heard) < len(b"hello") and (count := super().read_into(memoryview(buffer))) is not None:
            if not count:
                raise ConnectionResetError("closed during the handshake")
            self._heard += buffer[:count]
        if not b"hello".startswith(self._heard[:5]):
            raise OSError("not a word of the handshake")
        if len(self._heard) >= len(b"hello"):
            self._unsaid = self._unsaid[self.write(memoryview(self._unsaid)[:3]) :]
            self.wants_write, self.ready = bool(self._unsaid), not self._unsaid
            if self.ready:
                self._heard = self._heard[len(b"hello") :]
                self.has_buffered = bool(self._heard)

    def read_into(self, buffer: memoryview) -> int | None:
        if not self._heard:
            return super().read_into(buffer)
        piece = self._heard[: len(buffer)]
        buffer[: len(piece)] = piece
        self._heard = self._heard[len(piece) :]
        self.has_buffered = bool(self._heard)
        return len(piece)


@pytest.fixture
def greeted() -> Iterator[EmbeddedKafka]:
    """A broker whose connections begin with a handshake."""
    kafka = EmbeddedKafka()
    kafka._servers[0].endpoints[0].transport = GreetedTransport
    with kafka:
        yield kafka


@pytest.mark.parametrize("pieces", [[b"hello", b""], [b"hel", b"lo"], [b"hello"]], ids=["first", "in two pieces", "with the request"])
def test_a_handshake_comes_before_the_first_request(greeted: EmbeddedKafka, pieces: list[bytes]) -> None:
    with closing(Wire(greeted)) as wire:
        for piece in pieces[:-1]:
            wire.socket.sendall(piece)
            time.sleep(0.05)
        wire.socket.sendall(pieces[-1] + encode_request(MetadataRequest(topics=[]), 9, 1, "test"))
        assert wire._exactly(7) == b"welcome"
        assert wire.receive(MetadataRequest, 9).brokers  # type: ignore[attr-defined]
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers  # type: ignore[attr-defined]


def test_a_peer_that_fails_the_handshake_is_disconnected_and_the_others_are_served(greeted: EmbeddedKafka) -> None:
    with closing(Wire(greeted)) as other, closing(Wire(greeted)) as wire:
        other.socket.sendall(b"GET / HTTP/1.1")
        assert other.is_closed_by_peer()
        wire.socket.sendall(b"hello" + encode_request(MetadataRequest(topics=[]), 9, 1, "test"))
        assert wire._exactly(7) == b"welcome"
        assert wire.receive(MetadataRequest, 9).brokers  # type: ignore[attr-defined]


def test_a_peer_that_leaves_during_the_handshake_is_removed(greeted: EmbeddedKafka) -> None:
    wire = Wire(greeted)
    wire.socket.sendall(b"hel")
    wire.close()
    deadline = time.monotonic() + PATIENCE_S
    while greeted._servers[0].call(lambda: len(greeted._servers[0]._peers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not greeted._servers[0]._peers


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(message_max_bytes=50_000_000) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def wire(kafka: EmbeddedKafka) -> Iterator[Wire]:
    with closing(Wire(kafka)) as opened:
        yield opened


def test_it_advertises_the_port_it_listens_on(kafka: EmbeddedKafka, wire: Wire) -> None:
    (broker,) = wire.ask(MetadataRequest(topics=None), 9).brokers  # type: ignore[attr-defined]
    assert f"{broker.host}:{broker.port}" == kafka.bootstrap_servers


def test_W12_a_request_may_come_one_byte_at_a_time_and_several_at_once(wire: Wire) -> None:
    frame = bytes(encode_request(MetadataRequest(topics=None), 9, 1, "test"))
    for index in range(len(frame)):
        wire.socket.sendall(frame[index : index + 1])
    assert wire.receive(MetadataRequest, 9).brokers  # type: ignore[attr-defined]
    wire.socket.sendall(frame * 3)
    assert [bool(wire.receive(MetadataRequest, 9).brokers) for _ in range(3)] == [True] * 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [-1, 104_857_601, 2**31 - 1])
def test_W12_W13_a_frame_of_impossible_size_ends_the_connection(kafka: EmbeddedKafka, wire: Wire, size: int) -> None:
    wire.socket.sendall(struct.pack(">i", size))
    assert wire.is_closed_by_peer()
    with closing(Wire(kafka)) as other:
        assert other.ask(MetadataRequest(topics=None), 9)


def test_M_C5_requests_before_a_bad_size_are_answered_before_the_connection_ends(wire: Wire) -> None:
    request = encode_request(MetadataRequest(topics=None), 9, 1, "test")
    wire.socket.sendall(request * 2 + b"\xff\xff\xff\xff")

    assert [bool(wire.receive(MetadataRequest, 9).brokers) for _ in range(2)] == [True] * 2  # type: ignore[attr-defined]
    assert wire.is_closed_by_peer()


def test_E3_a_client_that_speaks_http_is_disconnected(wire: Wire) -> None:
    wire.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert wire.is_closed_by_peer()


def test_large_frames_pass_in_both_directions(wire: Wire) -> None:
    value = os.urandom(30_000_000)
    assert wire.ask(produce_request("t", make_batch(value)), 9).responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
    found = only_partition(wire.ask(fetch_request("t"), 12))  # type: ignore[arg-type]
    assert [record.value for batch in read_batches(found.records or b"") for record in batch.records()] == [value]


def test_a_client_that_does_not_read_its_answers_gets_all_of_them_later(wire: Wire) -> None:
    assert wire.ask(produce_request("t", make_batch(b"x" * 1_000_000)), 9)
    for _ in range(40):
        wire.send(fetch_request("t"), 12)
    time.sleep(0.2)
    sizes = {len(only_partition(wire.receive(type(fetch_request("t")), 12)).records or b"") for _ in range(40)}  # type: ignore[arg-type]
    assert len(sizes) == 1
    assert sizes.pop() > 1_000_000


def test_E9_a_waiting_fetch_is_answered_by_another_connections_produce(kafka: EmbeddedKafka, wire: Wire) -> None:
    wire.send(fetch_request("t", max_wait_ms=60_000), 12)
    with closing(Wire(kafka)) as producer:
        producer.ask(produce_request("t", make_batch(b"woken")), 9)
    assert only_partition(wire.receive(type(fetch_request("t")), 12)).high_watermark == 1  # type: ignore[arg-type]


def test_E9_a_waiting_fetch_is_answered_when_its_time_is_over(wire: Wire) -> None:
    started = time.monotonic()
    assert only_partition(wire.ask(fetch_request("t", max_wait_ms=150), 12)).high_watermark == 0  # type: ignore[arg-type]
    assert 0.1 < time.monotonic() - started < PATIENCE_S


def test_E12_a_planned_disconnect_reaches_the_socket(kafka: EmbeddedKafka, wire: Wire) -> None:
    kafka.faults.disconnect("Metadata")
    wire.send(MetadataRequest(topics=None), 9)
    assert wire.is_closed_by_peer()


def test_E12_an_answer_that_breaks_off_reaches_the_socket(kafka: EmbeddedKafka, wire: Wire) -> None:
    kafka.faults.close_mid_frame("Metadata", after_bytes=7)
    wire.send(MetadataRequest(topics=None), 9)
    assert len(wire._exactly(7)) == 7
    assert wire.is_closed_by_peer()


def test_E12_small_pieces(kafka: EmbeddedKafka, wire: Wire) -> None:
    whole = wire.ask(MetadataRequest(topics=None), 9)
    kafka.faults.bytes_at_a_time = 1
    assert wire.ask(MetadataRequest(topics=None), 9) == whole


def test_E4_an_idle_connection_is_closed() -> None:
    with EmbeddedKafka(connections_max_idle_ms=50) as kafka, closing(Wire(kafka)) as wire:
        assert wire.is_closed_by_peer()


def test_a_long_wait_ends_a_little_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def select(self: selectors.BaseSelector, timeout: float) -> list[Any]:
        waits.append(timeout)
        return []

    monkeypatch.setattr(selectors.DefaultSelector, "select", select)
    # Idle connections are looked for after a tenth of this.
    server = BrokerServer(BrokerNode(connections_max_idle_ms=30_000))
    server._step()
    server.close()
    (wait_s,) = waits
    assert 0 < wait_s <= 2.97


def test_M_D15_connections_beyond_the_limit_are_refused() -> None:
    with EmbeddedKafka(max_connections=1) as kafka, closing(Wire(kafka)) as first:
        assert first.ask(MetadataRequest(topics=None), 9)
        with closing(Wire(kafka)) as second:
            assert second.is_closed_by_peer()
        assert first.ask(MetadataRequest(topics=None), 9)


def test_close_ends_thread_port_and_connections() -> None:
    before = set(threading.enumerate())
    kafka = EmbeddedKafka().start()
    wires = [Wire(kafka) for _ in range(5)]
    assert wires[0].ask(MetadataRequest(topics=None), 9)
    kafka.close()
    kafka.close()
    assert set(threading.enumerate()) == before
    for wire in wires:
        assert wire.is_closed_by_peer()
        wire.close()
    with pytest.raises(ConnectionRefusedError):
        Wire(kafka)


def test_a_broker_that_was_never_started_can_be_closed() -> None:
    EmbeddedKafka().close()


def test_a_broker_is_started_once(kafka: EmbeddedKafka) -> None:
    with pytest.raises(IllegalStateError, match="already started"):
        kafka.start()


def test_a_port_that_is_taken_is_reported_in_one_sentence(kafka: EmbeddedKafka) -> None:
    port = int(kafka.bootstrap_servers.split(":")[1])
    with pytest.raises(ConnectError, match=f"port {port} on 127.0.0.1 is in use; choose another one"):
        EmbeddedKafka(port=port).start()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_M_D15_an_address_that_others_can_reach_needs_insecure_listen(host: str) -> None:
    with pytest.raises(ConfigError, match="need not log in to this broker over TLS"):
        BrokerServer(BrokerNode(), host=host).start()


def test_M_D15_with_insecure_listen_it_listens() -> None:
    server = BrokerServer(BrokerNode(), host="0.0.0.0", insecure_listen=True, advertised_host="127.0.0.1")
    server.start()
    try:
        assert server.address == f"127.0.0.1:{server.port}"
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S).close()
    finally:
        server.close()


def test_a_client_of_ipv4_has_its_own_address_on_a_socket_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    # An access rule that denies 127.0.0.1 would not be about it otherwise.
    node = BrokerNode()
    addresses: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(node, "connect", lambda peer_id, address, listener: addresses.put(address))
    server = BrokerServer(node, host="::", insecure_listen=True, advertised_host="127.0.0.1")
    try:
        server.start()
    except ConnectError:
        pytest.skip("this machine has no IPv6")
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
            assert addresses.get(timeout=PATIENCE_S) == f"127.0.0.1:{client.getsockname()[1]}"
    finally:
        server.close()


def test_an_address_that_does_not_exist_is_reported() -> None:
    with pytest.raises(ConnectError, match="nowhere"):
        BrokerServer(BrokerNode(), host="nowhere.invalid").start()


# python -m levada.broker


def run_broker(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "levada.broker", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted_and_ends_with_0(how: signal.Signals) -> None:
    process = run_broker("--port", "0", "--set", "num.partitions=3")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on 127.0.0.1:" in line
    port = int(line.split("127.0.0.1:")[1].split(",")[0])
    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()

    process.send_signal(how)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    assert "ended" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "0.0.0.0"], "levada broker: 0.0.0.0 can be reached from other machines"),
        (["--set", "num.partition=3"], "unknown broker setting 'num.partition'; did you mean 'num.partitions'?"),
        (["--set", "num.io.threads=0"], "broker setting 'num_io_threads' must be between 1 and 2147483647, not '0'"),
        (["--set", "node.id=-1"], "broker setting 'node.id' must be between 0 and 2147483647, not '-1'"),
        (["--set", "log.dirs=/x"], "broker setting 'log.dirs' cannot be given; give --data-dir"),
        (["--properties", "/none"], "/none: the file cannot be read: No such file or directory"),
    ],
)
def test_the_command_says_in_one_line_why_it_cannot_start(arguments: list[str], sentence: str) -> None:
    process = run_broker("--port", "0", *arguments)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (1, "")
    assert sentence in errors
    assert errors.count("\n") == 1


def test_the_command_says_in_one_line_that_the_port_is_taken(kafka: EmbeddedKafka) -> None:
    port = kafka.bootstrap_servers.split(":")[1]
    process = run_broker("--port", port)
    _, errors = process.communicate(timeout=PATIENCE_S)
    expected = f"levada broker: port {port} on 127.0.0.1 is in use; choose another one, or 0 for any that is free\n"
    assert (process.returncode, errors) == (1, expected)


@pytest.mark.parametrize("port", ["99999", "-1", "kafka"])
def test_the_command_refuses_what_is_not_a_port(port: str) -> None:
    process = run_broker(f"--port={port}")
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (2, "")
    assert f"'{port}' is not a port; ports go from 0 (any free one) to 65535" in errors


def test_the_embedded_broker_names_the_partition_it_lacks() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", partitions=2)
        for ask in (kafka.elect_leader, kafka.end_offset):
            with pytest.raises(UnknownTopicOrPartitionError, match="topic 'nowhere' does not exist"):
                ask("nowhere")
            with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' has no partition 2; it has 2, from 0"):
                ask("t", 2)


@pytest.mark.parametrize(("lose_from", "error"), [(-1, ValueError), ("3", TypeError)])
def test_records_are_lost_from_an_offset_on(lose_from: Any, error: type[Exception]) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        with pytest.raises(error, match="lose_from"):
            kafka.elect_leader("t", lose_from=lose_from)

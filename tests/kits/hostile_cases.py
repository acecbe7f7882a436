"""Frames and messages with false sizes and counts. Each Case is a generator for hardening_kit.cost_of(), which measures it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress

from levada import KafkaAdmin
from levada.broker.network.server import BrokerServer
from levada.broker.node.node import BrokerNode
from levada.errors import KafkaError, ProtocolError
from levada.protocol.codegen import decode, encode
from levada.protocol.frame import encode_request
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.fetch import FetchResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.schema import Message
from levada.wire.varint import encode_uvarint
from protocol_strategies import filled

Case = Generator[None, None, str]
MIB = 1 << 20
ZEROS = bytes(1 << 16)
FLOOD_BYTES = 256 * MIB
PATIENCE_S = 20


# --- M-C5: a size prefix that cannot be, then zeros without end --------------------------------------------------------------------------


def flood(sock: socket.socket, size: int) -> int:
    """Send a frame size and then zeros, until the other side closes or FLOOD_BYTES are sent. Returns the number of zeros sent."""
    sent = 0
    try:
        sock.sendall(struct.pack(">i", size))
        while sent < FLOOD_BYTES:
            sent += sock.send(ZEROS)
    except OSError:
        return sent
    return sent


def flood_of_a_broker(size: int) -> Case:
    """Measure how much an embedded broker reads from a peer that floods it. size: the frame size that the peer sends."""
    server = BrokerServer(BrokerNode())
    server.start()
    try:
        with closing(socket.create_connection((server.host, server.port), PATIENCE_S)) as polite:
            polite.sendall(encode_request(MetadataRequest(), 9, 1, None))
            polite.recv(4)
        flood_once(server, 7)
        yield
        return f"{flood_once(server, size)} bytes sent"
    finally:
        server.close()


def flood_once(server: BrokerServer, size: int) -> int:
    with closing(socket.create_connection((server.host, server.port), PATIENCE_S)) as sock:
        return flood(sock, size)


class Flooder:
    """A server that floods each client that connects. size: the frame size that it sends."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with closing(sock):
                # Read the request first: closing a socket with unread bytes resets the connection, and sent bytes would be lost.
                sock.recv(1 << 16)
                self.sent.append(flood(sock, self.size))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)


def ask(flooder: Flooder) -> str:
    try:
        with KafkaAdmin(bootstrap_servers=flooder.address, client_id="flooded") as admin:
            admin.list_topics(timeout=0.5)
    except KafkaError as error:
        return type(error).__name__
    return "answered"


def flood_of_a_client(size: int) -> Case:
    """Measure how much a client reads from a server that floods it, including reconnects. size: the frame size that the server sends."""
    flooder = Flooder(size)
    try:
        ask(flooder)
        flooder.sent.clear()
        yield
        outcome = ask(flooder)
        return f"{outcome}, {max(flooder.sent)} bytes sent on one of {len(flooder.sent)} connections"
    finally:
        flooder.close()


# --- M-C6: lengths and counts that lie ---------------------------------------------------------------------------------------------------

LIES = {
    "-2": struct.pack(">i", -2),
    "2^31 - 1": struct.pack(">i", 2**31 - 1),
    "-2^31": struct.pack(">i", -(2**31)),
    "one MiB": struct.pack(">i", MIB),
    "compact 2^31 - 2": b"\xff\xff\xff\xff\x07",
    "compact 2^32 - 2": b"\xff\xff\xff\xff\x0f",
    "compact one MiB": b"\x81\x80\x40",
}
LIARS: list[type[Message]] = [MetadataResponse, FetchResponse, ProduceRequest, ApiVersionsResponse, ApiVersionsRequest, MetadataRequest]


def lying_messages() -> Iterator[tuple[type[Message], int, bytes]]:
    """Yield the messages of LIARS in their lowest and highest version, overwritten at about 40 positions with each of LIES."""
    for message in LIARS:
        for version in (message.MIN_VERSION, message.MAX_VERSION):
            written = encode(filled(message, version), version)
            for at in range(0, len(written), 1 + len(written) // 40):
                for lie in LIES.values():
                    yield message, version, written[:at] + lie + written[at + len(lie) :]


def lying_lengths() -> Case:
    """Decode all lying_messages(), and report the time of the slowest."""
    broken = list(lying_messages())
    for message, version, data in broken:
        slowest_of(message, version, data)
    yield
    return f"{len(broken)} messages, slowest {max(slowest_of(*case) for case in broken):.2f} ms"


def slowest_of(message: type[Message], version: int, data: bytes) -> float:
    """Return the processor time of decoding, in ms: the shorter one of two attempts."""
    return min(_ms_of(lambda: decode(message, data, version)) for _ in range(2))


def _ms_of(attempt: Callable[[], object]) -> float:
    started = time.process_time()
    with suppress(ProtocolError):
        attempt()
    return (time.process_time() - started) * 1000


def many_tags(count: int, is_whole: bool) -> Case:
    """Decode a message with `count` unknown tagged fields of one byte. If not is_whole, the last field is missing."""
    fields = b"".join(encode_uvarint(tag) + b"\x01\x00" for tag in range(3, 3 + count))
    written = encode(ApiVersionsResponse(), 3)
    data = written[:-1] + encode_uvarint(count) + (fields if is_whole else fields[:-3])
    _ms_of(lambda: decode(ApiVersionsResponse, data, 3))
    yield
    return f"{len(data)} bytes, {_best_ms_of(ApiVersionsResponse, data, 3):.2f} ms"


def nested_tags(structs: int, fields: int) -> Case:
    """Decode an array of `structs` structs, each with `fields` unknown tagged fields."""
    data = _brokers_with_tags(structs, fields)
    assert len(decode(MetadataResponse, data, 12)[0].brokers) == structs
    yield
    return f"{len(data)} bytes, {_best_ms_of(MetadataResponse, data, 12):.2f} ms"


def _brokers_with_tags(structs: int, fields: int) -> bytes:
    tags = encode_uvarint(fields) + b"".join(encode_uvarint(tag) + b"\x01\x00" for tag in range(fields))
    broker = struct.pack(">i", 1) + b"\x02h" + struct.pack(">i", 9092) + b"\x00" + tags
    return bytes(4) + encode_uvarint(structs + 1) + broker * structs + b"\x00" + bytes(4) + b"\x01" + b"\x00"


def _best_ms_of(message: type[Message], data: bytes, version: int) -> float:
    return min(_ms_of(lambda: decode(message, data, version)) for _ in range(20))

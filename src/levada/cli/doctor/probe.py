"""Tests one address: resolves its name, connects, and asks the listener. doctor opens sockets of its own only in this module."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from levada.cli.doctor.listener import Listener, Speaks
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from levada.protocol.schema import Request

CLIENT_ID = "levada-doctor"
_NO_MECHANISM = "levada-doctor-asks-which"
"""No listener has this mechanism. The broker therefore answers with the mechanisms that it has, and starts no login."""
_MOST_BYTES = 1 << 20
_SIZE = struct.Struct(">i")


class Reached(NamedTuple):
    """The result of connecting to one address. fault: why that failed, or None. took_ms: duration of the attempt in ms."""

    address: str
    fault: str | None
    took_ms: float


class Resolved(NamedTuple):
    """The result of a DNS look-up. fault: why that failed, or None. took_ms: duration of the look-up in ms."""

    addresses: tuple[str, ...]
    fault: str | None
    took_ms: float


def resolve(host: str) -> Resolved:
    """Return the addresses of a host name, from the system's resolver."""
    begun = time.monotonic()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Resolved((), _why(error), _since(begun))
    return Resolved(tuple(dict.fromkeys(str(entry[4][0]) for entry in found)), None, _since(begun))


def reach(addresses: Sequence[str], port: int, timeout: float) -> list[Reached]:
    """Connect to each address, one after another, and close the connection at once. timeout: seconds for each address."""
    return [_reach(address, port, timeout) for address in addresses]


def listen(host: str, port: int, timeout: float) -> Listener:
    """Find out which protocol an address speaks, whether with TLS, and which SASL mechanisms it has.

    timeout: seconds to connect and for each read, on up to three connections.
    """
    has_tls = _completes_handshake(host, port, timeout)
    answer = _ask(host, port, timeout, ApiVersionsRequest(), 0, with_tls=has_tls)
    speaks = _speaks(answer)
    if speaks is not Speaks.KAFKA:
        return Listener(has_tls, speaks)
    handshake = _ask(host, port, timeout, SaslHandshakeRequest(mechanism=_NO_MECHANISM), 1, with_tls=has_tls)
    return Listener(has_tls, speaks, _mechanisms(handshake))


def _reach(address: str, port: int, timeout: float) -> Reached:
    begun = time.monotonic()
    try:
        with socket.create_connection((address, port), timeout):
            return Reached(address, None, _since(begun))
    except OSError as error:
        return Reached(address, _why(error), _since(begun))


def _completes_handshake(host: str, port: int, timeout: float) -> bool:
    try:
        with socket.create_connection((host, port), timeout) as connection, _unverified().wrap_socket(connection, server_hostname=host):
            return True
    except ssl.SSLError as error:
        # A TLS alert shows that the listener speaks TLS. It may refuse us because it requires a client certificate.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _ask(host: str, port: int, timeout: float, request: Request, version: int, *, with_tls: bool) -> bytes:
    """Send one request on a new connection. Return the received frame, which may be cut off; b"" if nothing was received.

    timeout: seconds to connect and for each read. with_tls: whether to use TLS; the certificate is not verified.
    """
    with suppress(OSError), socket.create_connection((host, port), timeout) as plain:
        connection = _unverified().wrap_socket(plain, server_hostname=host) if with_tls else plain
        with connection:
            connection.sendall(encode_request(request, version, 0, CLIENT_ID))
            return _receive(connection)
    return b""


def _receive(connection: socket.socket) -> bytes:
    """Return one frame including its 4-byte size. If the peer closes earlier or fails, return the bytes received until then."""
    data = b""
    with suppress(OSError):
        while len(data) < _SIZE.size or len(data) < _SIZE.size + min(*_SIZE.unpack_from(data), _MOST_BYTES):
            piece = connection.recv(65_536)
            if not piece:
                break
            data += piece
    return data


def _speaks(answer: bytes) -> Speaks:
    if not answer:
        return Speaks.NOTHING
    if answer[:4].upper() in (b"HTTP", b"<!DO", b"<HTM"):
        return Speaks.HTTP
    if answer.startswith(b"SSH-"):
        return Speaks.SSH
    # A broker's answer begins with its size and the correlation id of our request, 0.
    is_frame = len(answer) >= 8 and _SIZE.unpack_from(answer)[0] == len(answer) - _SIZE.size
    return Speaks.KAFKA if is_frame and answer[4:8] == bytes(4) else Speaks.OTHER


def _mechanisms(answer: bytes) -> tuple[str, ...] | None:
    if not answer:
        return None
    response = decode_response(SaslHandshakeRequest, 1, answer[_SIZE.size :])
    assert isinstance(response, SaslHandshakeResponse)
    return tuple(response.mechanisms)


def _unverified() -> ssl.SSLContext:
    # This connection carries no secrets and only tests for TLS. The client verifies certificates on its own connections.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _why(error: OSError | UnicodeError) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()


def _since(begun: float) -> float:
    return (time.monotonic() - begun) * 1000

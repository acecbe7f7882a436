"""Plaintext over real sockets, with and without the interpreter's lock."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from levada.net import short_io
from levada.net.transport import SHORT_BYTES, PlaintextTransport, PromptTransport

KINDS = [
    PlaintextTransport,
    pytest.param(PromptTransport, marks=pytest.mark.skipif(not short_io.COMPILED, reason="interpreted code cannot keep the lock")),
]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, SHORT_BYTES, SHORT_BYTES + 1])
def test_L13_bytes_go_both_ways(kind: type[PlaintextTransport], size: int, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    transport = kind(ours)
    data, buffer = os.urandom(size), memoryview(bytearray(size))
    written = transport.write(memoryview(data))
    assert theirs.recv(size, socket.MSG_WAITALL if written == size else 0) == data[:written]
    theirs.sendall(data[:written])
    read = transport.read_into(buffer)
    assert read is not None
    assert bytes(buffer[:read]) == data[:read]


@pytest.mark.parametrize("kind", KINDS)
def test_L13_not_now_and_the_end_are_told_apart(kind: type[PlaintextTransport], pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    transport, buffer = kind(ours), memoryview(bytearray(10))
    assert transport.read_into(buffer) is None
    piece = memoryview(bytes(SHORT_BYTES))
    while transport.write(piece):
        pass
    theirs.close()
    with pytest.raises(OSError, match=r"Broken pipe|reset") as failure:
        transport.write(piece)
    assert failure.value.errno in (errno.EPIPE, errno.ECONNRESET)


@pytest.mark.parametrize("kind", KINDS)
def test_L13_what_was_closed_by_the_other_side_reads_as_the_end(
    kind: type[PlaintextTransport], pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    theirs.close()
    assert kind(ours).read_into(memoryview(bytearray(10))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_socket_is_an_error_and_reads_nobody_elses_bytes(
    kind: type[PlaintextTransport], pair: tuple[socket.socket, socket.socket]
) -> None:
    transport = kind(pair[0])
    transport.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        transport.read_into(memoryview(bytearray(10)))

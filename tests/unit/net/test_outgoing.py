"""Pieces of frames on their way out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from levada.net.outgoing import WORTH_NAMING, Outgoing
from levada.net.transport import PlaintextTransport

LARGE = bytes(WORTH_NAMING)


class OpenSocket:
    """Takes all that it is given."""

    def __init__(self) -> None:
        self.written = b""

    def send(self, data: memoryview, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        self.written += b"".join(pieces)
        return sum(map(len, pieces))

    def recv_into(self, buffer: memoryview, /) -> int:
        raise BlockingIOError

    def close(self) -> None:
        raise AssertionError("nobody closes it")

    def fileno(self) -> int:
        return -1


@pytest.mark.parametrize("frame", [[b""], [b"", b""], [b"", LARGE, b""], [b"a", b"", LARGE, b"", b"b"]])
@pytest.mark.parametrize("limit", [None, 3])
def test_pieces_without_bytes_hold_nothing_back(frame: list[bytes], limit: int | None) -> None:
    socket, outgoing = OpenSocket(), Outgoing()
    outgoing.add(frame)
    assert outgoing.write(PlaintextTransport(socket), limit)
    assert not outgoing
    assert socket.written == b"".join(frame)

"""A connection to a broker without any client."""

from __future__ import annotations

import select
import socket
import struct
from types import TracebackType
from typing import Any, Self

from levada.protocol.frame import decode_response, encode_request
from levada.protocol.schema import Request

TIMEOUT_S = 30
CORRELATION_ID = 1


class Wire:
    """Asks one request at a time. servers: the first of them is connected to."""

    def __init__(self, servers: str) -> None:
        host, port = servers.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._answers = self._socket.makefile("rb")
        self._asked: tuple[type[Request], int] | None = None

    def ask(self, request: Request, version: int) -> Any:
        """Return the response. Raises ConnectionResetError where the broker closes the connection instead."""
        self.send(request, version)
        return self.answer()

    def send(self, request: Request, version: int) -> None:
        """Send a request whose answer is awaited later."""
        assert self._asked is None
        self._asked = type(request), version
        self._socket.sendall(encode_request(request, version, CORRELATION_ID, "test"))

    def answer(self) -> Any:
        """Wait for the response to what was sent, as ask() does."""
        assert self._asked is not None
        (kind, version), self._asked = self._asked, None
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(kind, version, self._read(size))

    def is_answered(self) -> bool:
        """Whether something of the response is there, without waiting."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise ConnectionResetError("closed before the answer was complete")
        return data

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

"""Proxies for tests: SOCKS5 and HTTP CONNECT, in a thread with an event loop of its own.

They are written without levada, from the RFCs, so that they share no misunderstanding with it. Besides, servers that behave as proxies must
not: see invalid_peers.serving().
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import threading
from collections.abc import Mapping
from ipaddress import ip_address
from types import TracebackType
from typing import Self

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TestProxy:
    """A proxy on a free port of 127.0.0.1. It speaks SOCKS5 and HTTP CONNECT on the same port.

    users: names with passwords; None accepts clients without a login. names: host names that only this proxy can resolve. refused: targets
    to which it does not connect, as "host:port". asked: the targets so far. logins: how clients have logged in so far.
    """

    __test__ = False

    def __init__(self, users: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None) -> None:
        self.users = users
        self.names = dict(names or {})
        self.refused: set[str] = set()
        self.asked: list[str] = []
        self.logins: list[str] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test proxy", daemon=True)
        self._listener: socket.socket | None = None
        self._tasks: dict[asyncio.Task[None], socket.socket] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def url(self, scheme: str, login: str = "") -> str:
        """Return the proxy's URL. login: "user:password"."""
        return f"{scheme}://{login}{'@' if login else ''}127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)

    async def _start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._on_connection)

    def _on_connection(self) -> None:
        # Not asyncio's server or sock_accept(): a connection that they have just accepted is lost when they end.
        assert self._listener is not None
        connection, _ = self._listener.accept()
        task = self._loop.create_task(self._accept(connection))
        self._tasks[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).close()

    async def _stop(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(sock=connection)
            try:
                await self._serve(reader, writer)
            finally:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        found = await (self._socks(reader, writer) if first == b"\x05" else self._http(first, reader, writer))
        if found is not None:
            await _pump((reader, writer), found)

    async def _connect(self, host: str, port: int) -> Streams | None:
        self.asked.append(f"{host}:{port}")
        if self.asked[-1] in self.refused:
            return None
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(self.names.get(host, host), port)
        return None

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams | None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        wanted = 0 if self.users is None else 2
        writer.write(bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            return None
        if wanted and not await self._socks_login(reader, writer):
            return None
        _, _, _, kind = await reader.readexactly(4)
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        raw = await reader.readexactly(size)
        host = raw.decode() if kind == 3 else str(ip_address(raw))
        port = int.from_bytes(await reader.readexactly(2), "big")
        found = await self._connect(host, port)
        refused = f"{host}:{port}" in self.refused
        # The address that the proxy has bound: a name, which no real proxy sends, and every client has to skip.
        writer.write(bytes([5, 0 if found else 2 if refused else 5, 0, 3, 2]) + b"me" + b"\x12\x34")
        return found

    async def _socks_login(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await reader.readexactly(1)
        user = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        password = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        accepted = self._accepts(user, password)
        writer.write(bytes([1, 0 if accepted else 1]))
        return accepted

    async def _http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams | None:
        lines = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if self.users is not None:
            login = base64.b64decode(headers.get("proxy-authorization", "").removeprefix("Basic ")).decode()
            user, _, password = login.partition(":")
            if not self._accepts(user, password):
                writer.write(
                    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
                )
                return None
        host, _, port = lines[0].split()[1].rpartition(":")
        found = await self._connect(host.strip("[]"), int(port))
        if found is None:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n" if self.asked[-1] in self.refused else b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return None
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        return found

    def _accepts(self, user: str, password: str) -> bool:
        self.logins.append(user)
        return (self.users or {}).get(user) == password


async def _pump(client: Streams, target: Streams) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()

    ways = [asyncio.ensure_future(copy(client[0], target[1])), asyncio.ensure_future(copy(target[0], client[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        target[1].transport.abort()


def free_port() -> int:
    """Return a port of 127.0.0.1 that is not in use now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

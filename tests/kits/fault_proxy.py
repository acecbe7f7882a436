"""A proxy in front of real brokers that knows Kafka's frames: it resets connections, flips bytes and cuts answers short.

It listens on one port for each broker, which the broker advertises, so that every byte of a client passes it. It runs in a thread with an
event loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Self

from levada.protocol.api import request_type

SIZE = struct.Struct(">i")
HEAD = struct.Struct(">hhi")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Verbs:
    """What is done to frames. None, or 0: nothing.

    reset_after_s: each connection is reset after a time in this range. flip: API and direction ("request", "response"); one of flip_one_in
    frames gets one bit changed, within a run of `mark`: where a checksum covers it. cut: API; one of cut_one_in answers is cut in the
    middle, and the connection closed.
    """

    reset_after_s: tuple[float, float] | None = None
    flip: tuple[str, str] | None = None
    flip_one_in: int = 0
    mark: bytes = b"x" * 20
    cut: str | None = None
    cut_one_in: int = 0


@dataclass
class Done:
    """How often each verb was applied, and how many connections there were."""

    connections: int = 0
    resets: int = 0
    flips: int = 0
    cuts: int = 0


@dataclass
class _Link:
    """One client's connection and the one to its broker. asked: names of APIs by correlation id."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    asked: dict[int, str] = field(default_factory=dict)


class FaultProxy:
    """A context manager. routes: the broker's port for each port to listen on. Set `verbs` at any time."""

    def __init__(self, routes: Mapping[int, int], *, seed: int = 1) -> None:
        self.verbs = Verbs()
        self.done = Done()
        self._routes = dict(routes)
        self._random = Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._servers = [
            await asyncio.start_server(lambda reader, writer, to=to: self._serve(reader, writer, to), "127.0.0.1", port)  # type: ignore[misc]
            for port, to in self._routes.items()
        ]

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.done.connections += 1
        try:
            broker_reader, broker = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        link = _Link(writer, broker)
        pumps = [asyncio.create_task(self._requests(reader, link)), asyncio.create_task(self._responses(broker_reader, link))]
        timeout = self._random.uniform(*self.verbs.reset_after_s) if self.verbs.reset_after_s else None
        try:
            ended, _ = await asyncio.wait(pumps, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not ended:
                self.done.resets += 1
                for end in (writer, broker):
                    end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.close()
            broker.close()

    async def _requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                key, _, correlation_id = HEAD.unpack_from(frame)
                api = link.asked[correlation_id] = request_type(key).NAME
                link.broker.write(self._flipped(frame, api, "request"))
                await link.broker.drain()

    async def _responses(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                api = link.asked.pop(SIZE.unpack_from(frame)[0], "")
                if api == self.verbs.cut and self._random.randrange(self.verbs.cut_one_in) == 0:
                    self.done.cuts += 1
                    link.client.write(SIZE.pack(len(frame)) + frame[: len(frame) // 2])
                    await link.client.drain()
                    return
                link.client.write(self._flipped(frame, api, "response"))
                await link.client.drain()

    def _flipped(self, frame: bytes, api: str, direction: str) -> bytes:
        """Return a frame with its size, a bit changed if its turn has come."""
        at = frame.find(self.verbs.mark) if self.verbs.flip == (api, direction) else -1
        if at >= 0 and self._random.randrange(self.verbs.flip_one_in) == 0:
            self.done.flips += 1
            changed = bytearray(frame)
            changed[at + self._random.randrange(len(self.verbs.mark))] ^= 1 << self._random.randrange(8)
            frame = bytes(changed)
        return SIZE.pack(len(frame)) + frame


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)

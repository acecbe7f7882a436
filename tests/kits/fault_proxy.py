"""A proxy in front of real brokers that knows Kafka's frames: it resets connections, flips bytes, cuts answers short, holds requests back,
delays frames, limits the rate and drops packets.

It listens on one port for each broker, which the broker advertises, so that every byte of a client passes it. It runs in a thread with an
event loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from random import Random
from types import TracebackType
from typing import Self, cast

from kafka_cluster import receive
from levada.protocol.api import request_type
from levada.protocol.frame import decode_response
from levada.protocol.schema import Response
from packet_loss import HasOptions, drop_packets, lose_packets, pass_packets

SIZE = struct.Struct(">i")
HEAD = struct.Struct(">hhi")
MOMENT_S = 1e-6
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Verbs:
    """What is done to frames. None, or 0: nothing.

    reset_after_s: each connection is reset after a time in this range. flip: API and direction ("request", "response"); one of flip_one_in
    frames gets one bit changed, within a run of `mark`: where a checksum covers it. cut: API; one of cut_one_in answers is cut in the
    middle, and the connection closed. hold: API; the next request of it is kept for deliver_held(), and `hold` is None again. delay_s: each
    frame to and from the broker behind delayed_port comes so much later, its order kept. bytes_per_s: of all connections together, in each
    direction.
    """

    reset_after_s: tuple[float, float] | None = None
    flip: tuple[str, str] | None = None
    flip_one_in: int = 0
    mark: bytes = b"x" * 20
    cut: str | None = None
    cut_one_in: int = 0
    hold: str | None = None
    delay_s: tuple[float, float] | None = None
    delayed_port: int = 0
    bytes_per_s: float = 0


@dataclass
class Done:
    """How often each verb was applied, and how many connections there were."""

    connections: int = 0
    resets: int = 0
    flips: int = 0
    cuts: int = 0


class _Route:
    """A port to listen on, the broker behind it, and the connections of clients. is_open: cleared while the route is cut."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self.broker_port = broker_port
        self.lost_share = 0.0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.clients: set[asyncio.StreamWriter] = set()
        self.brokers: set[asyncio.StreamWriter] = set()
        self.listening: list[HasOptions] = []

    def cut(self) -> None:
        self.is_open.clear()
        self._each(drop_packets, self.clients)

    def mend(self) -> None:
        self._each(pass_packets, self.clients)
        self.is_open.set()

    def lose(self, share: float) -> None:
        self.lost_share = share
        self._each(partial(lose_packets, share=share) if share else pass_packets, self.clients | self.brokers)

    def _each(self, act: Callable[[HasOptions], None], connections: Iterable[asyncio.StreamWriter]) -> None:
        for socket_ in (*self.listening, *(connection.get_extra_info("socket") for connection in connections)):
            act(socket_)


class _Line:
    """What one direction of all connections shares when the rate is limited."""

    def __init__(self) -> None:
        self._free_at_s = 0.0

    async def take(self, size: int, bytes_per_s: float) -> None:
        """Wait until so many bytes have passed."""
        now_s = asyncio.get_running_loop().time()
        self._free_at_s = max(self._free_at_s, now_s) + size / bytes_per_s
        await asyncio.sleep(self._free_at_s - now_s)


@dataclass
class _Link:
    """One client's connection and the one to its broker. asked: names of APIs by correlation id. due_s: when the last frame in a direction
    is written, of those that are delayed.
    """

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    route: _Route
    asked: dict[int, str] = field(default_factory=dict)
    due_s: dict[str, float] = field(default_factory=dict)


class FaultProxy:
    """A context manager. routes: the broker's port for each port to listen on. Set `verbs` at any time."""

    def __init__(self, routes: Mapping[int, int], *, seed: int = 1) -> None:
        self.verbs = Verbs()
        self.done = Done()
        self._routes = {port: _Route(port, broker_port) for port, broker_port in routes.items()}
        self._lines = {"request": _Line(), "response": _Line()}
        self._held: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        self._random = Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)

    def cut(self, port: int) -> None:
        """Drop every packet that comes in for a port, on connections that are there and for new ones; send nothing out of it."""
        self._run(self._routes[port].cut)

    def mend(self, port: int) -> None:
        """End cut()."""
        self._run(self._routes[port].mend)

    def lose(self, share: float) -> None:
        """Drop this share of all packets, on connections that are there and on new ones; 0 drops none."""
        for route in self._routes.values():
            self._run(partial(route.lose, share))

    def reset_all(self) -> None:
        """Reset every connection that there is now."""
        self._run(self._reset_all)

    def _reset_all(self) -> None:
        for route in self._routes.values():
            for client in list(route.clients):
                client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                client.transport.abort()

    def deliver_held(self, timeout_s: float = 10) -> Response:
        """Send the request that was held back, on a connection of its own, and return what the broker answers to it."""
        port, frame = self._held.get(timeout=timeout_s)
        key, version, _ = HEAD.unpack_from(frame)
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(SIZE.pack(len(frame)) + frame)
            (size,) = SIZE.unpack(receive(connection, SIZE.size))
            return decode_response(request_type(key), version, receive(connection, size))

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, act: Callable[[], None]) -> None:
        """Do something in the loop, and wait until it is done."""

        async def done() -> None:
            act()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(10)

    async def _listen(self) -> None:
        self._servers = []
        for port, route in self._routes.items():
            server = await asyncio.start_server(partial(self._serve, route=route), "127.0.0.1", port)
            route.listening = [cast(HasOptions, listening) for listening in server.sockets]
            self._servers.append(server)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, route: _Route) -> None:
        self.done.connections += 1
        route.clients.add(writer)
        try:
            await self._pass_on(reader, writer, route)
        finally:
            route.clients.discard(writer)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, route: _Route) -> None:
        try:
            broker_reader, broker = await asyncio.open_connection("127.0.0.1", route.broker_port)
        except OSError:
            return
        if route.lost_share:
            lose_packets(broker.get_extra_info("socket"), route.lost_share)
        route.brokers.add(broker)
        link = _Link(writer, broker, route)
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
            route.brokers.discard(broker)
            broker.close()

    async def _requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                await link.route.is_open.wait()
                key, _, correlation_id = HEAD.unpack_from(frame)
                api = link.asked[correlation_id] = request_type(key).NAME
                if api == self.verbs.hold:
                    self.verbs = replace(self.verbs, hold=None)
                    self._held.put((link.route.broker_port, frame))
                    # Answers come in the order of the requests, so that nothing behind this one may be answered.
                    while True:
                        await _frame(reader)
                await self._write(link, "request", self._flipped(frame, api, "request"))

    async def _responses(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                await link.route.is_open.wait()
                api = link.asked.pop(SIZE.unpack_from(frame)[0], "")
                if api == self.verbs.cut and self._random.randrange(self.verbs.cut_one_in) == 0:
                    self.done.cuts += 1
                    link.client.write(SIZE.pack(len(frame)) + frame[: len(frame) // 2])
                    await link.client.drain()
                    return
                await self._write(link, "response", self._flipped(frame, api, "response"))

    async def _write(self, link: _Link, direction: str, data: bytes) -> None:
        """Pass a frame on, later or slowly if it shall be."""
        verbs, loop = self.verbs, asyncio.get_running_loop()
        writer = link.broker if direction == "request" else link.client
        if verbs.bytes_per_s:
            await self._lines[direction].take(len(data), verbs.bytes_per_s)
        delay_s = self._random.uniform(*verbs.delay_s) if verbs.delay_s and link.route.port == verbs.delayed_port else 0.0
        # The loop does what is due at the same moment in any order.
        due_s = link.due_s[direction] = max(link.due_s.get(direction, 0.0) + MOMENT_S, loop.time() + delay_s)
        if due_s > loop.time():
            loop.call_at(due_s, writer.write, data)
        else:
            writer.write(data)
            await writer.drain()

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

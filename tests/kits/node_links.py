"""Proxies between the nodes of a real cluster, one for each node that reaches another one: bytes in one direction can be held back.

A KafkaCluster that is linked names its nodes node-1, node-2, ..., and each resolves these names in a hosts file of its own, to addresses
127.0.<source>.<target>. So the links know who speaks, without root. What is held back arrives once the link is mended, as after lost
packets that TCP sends again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import NamedTuple

PIECE = 1 << 16
PATIENCE_S = 10


class Way(NamedTuple):
    """From one node to another."""

    source: int
    target: int

    @property
    def address(self) -> str:
        """Where the source reaches the target."""
        return f"127.0.{self.source}.{self.target}"


def host_of(node: int) -> str:
    """The name of a node, which each node resolves in a hosts file of its own."""
    return f"node-{node}"


def hosts_of(node: int, nodes: Iterable[int]) -> str:
    """Return a node's hosts file. Java asks nothing else then, so it has this machine's name, too."""
    others = (f"{Way(node, other).address} {host_of(other)}\n" for other in nodes if other != node)
    return "".join((f"127.0.0.1 localhost {socket.gethostname()} {host_of(node)}\n", *others))


def ways_from(node: int, nodes: Iterable[int]) -> list[Way]:
    """Return the ways from a node to all the others."""
    return [Way(node, other) for other in nodes if other != node]


def ways_to(node: int, nodes: Iterable[int]) -> list[Way]:
    """Return the ways from all the others to a node."""
    return [Way(other, node) for other in nodes if other != node]


class NodeLinks:
    """The links between nodes. ports: where each listens for the others, on 127.0.0.1; the links listen on the same ports."""

    def __init__(self, ports: Mapping[int, Sequence[int]]) -> None:
        self._ports = ports
        self._open = {Way(*pair): asyncio.Event() for pair in permutations(self._ports, 2)}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node links", daemon=True)

    def cut(self, ways: Iterable[Way]) -> None:
        """Let nothing pass these ways, whichever side has connected."""
        for way in ways:
            self._loop.call_soon_threadsafe(self._open[way].clear)

    def mend(self) -> None:
        """Let everything pass again."""
        for is_open in self._open.values():
            self._loop.call_soon_threadsafe(is_open.set)

    def start(self) -> None:
        """Listen; before the nodes are started, which wait for one another."""
        self._thread.start()
        self.mend()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)

    def close(self) -> None:
        """Close everything; once, or never if it was not started."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _listen(self) -> None:
        for way in self._open:
            for port in self._ports[way.target]:
                self._servers.append(await asyncio.start_server(partial(self._serve, way, port), way.address, port))

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, way: Way, port: int, asking: asyncio.StreamReader, answered: asyncio.StreamWriter) -> None:
        try:
            await self._open[way].wait()
            answering, asked = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            answered.close()
            return
        back = Way(way.target, way.source)
        pumps = [
            asyncio.create_task(_pump(asking, asked, self._open[way])),
            asyncio.create_task(_pump(answering, answered, self._open[back])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            asked.close()
            answered.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            await is_open.wait()
            writer.write(data)
            await writer.drain()

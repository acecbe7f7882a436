"""Carries out the handshake with a proxy on a connected socket, and looks up the addresses that a connection through a proxy needs."""

from __future__ import annotations

from levada.base.proxy import Proxy
from levada.net.proxy.handshake import CLOSED, Handshake, ProxyError, Step, handshake
from levada.net.resolver import Address, Lookup
from levada.net.transport import PlaintextTransport, SocketLike


class Tunnel:
    """The handshake of one connection. host, port: where the proxy is to connect to."""

    def __init__(self, socket: SocketLike, proxy: Proxy, host: str, port: int) -> None:
        self._transport = PlaintextTransport(socket)
        self._handshake: Handshake = handshake(proxy, host, port)
        self._step: Step | None = None
        self._unsent = memoryview(b"")
        self._is_begun = False

    @property
    def done(self) -> bool:
        """Whether the proxy has connected, so that the next bytes are the broker's."""
        return self._is_begun and self._step is None

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits until the socket can be written to; otherwise it waits for bytes to arrive."""
        return bool(self._unsent)

    def advance(self) -> bool:
        """Continue the handshake as far as possible without waiting; return whether it is done. Raises OSError."""
        while not self.done and self.step():
            pass
        return self.done

    def step(self) -> bool:
        """Send or receive once. Return False if the socket is not ready for that. Raises ProxyError if the proxy refuses, OSError."""
        if not self._is_begun:
            self._is_begun = True
            self._take(b"")
        assert self._step is not None, "the handshake is over"
        if self._unsent:
            sent = self._transport.write(self._unsent)
            self._unsent = self._unsent[sent:]
            return sent > 0
        received = memoryview(bytearray(self._step.most))
        count = self._transport.read_into(received)
        if count == 0:
            raise ProxyError(CLOSED)
        if count:
            self._take(bytes(received[:count]))
        return count is not None

    def _take(self, received: bytes) -> None:
        try:
            self._step = self._handshake.send(received) if received else next(self._handshake)
            self._unsent = memoryview(self._step.send)
        except StopIteration:
            self._step = None


def through(proxy: Proxy, lookup: Lookup) -> Lookup:
    """Return the look-up for connections through a proxy. It returns addresses of the proxy, each with the target to ask it for.

    The name of a target is looked up only if the proxy is to be given an address (socks5://).
    """

    def look_up(host: str, port: int) -> list[Address]:
        targets = [(host, port)] if proxy.resolves_names else [found.sockaddr[:2] for found in _named(host, port, lookup)]
        proxies = _named(proxy.host, proxy.port, lookup)
        return [address._replace(target=target) for target in targets for address in proxies]

    return look_up


def _named(host: str, port: int, lookup: Lookup) -> list[Address]:
    """Look a name up. The error names it, because two names are involved."""
    try:
        return list(lookup(host, port))
    except (OSError, ValueError) as error:
        raise OSError(f"{host}: {error}") from error

"""Looks up host names without blocking the caller.

A name is looked up in a short-lived daemon thread, because the system's resolver can take half a minute and cannot be interrupted. A
literal address is looked up in the caller's thread, and so is every name while the interpreter exits and starts no more threads. A Route
belongs to one connection and remembers which address comes next, so that every address of a host is tried
(client.dns.lookup=use_all_dns_ips). After the last address, or when an established connection has ended, the name is looked up again, and
the address that was tried last goes to the end.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias


class Address(NamedTuple):
    """One IP address and port that a socket can connect to.

    target: the host and port to which a proxy at this address is to connect; None without a proxy.
    """

    family: int
    sockaddr: tuple[Any, ...]
    target: tuple[str, int] | None = None

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


Lookup: TypeAlias = Callable[[str, int], Sequence[Address]]


def look_up(host: str, port: int, *, literal_only: bool = False) -> Sequence[Address]:
    """Return every TCP address of a host, in the system's order of preference. Raises OSError, and ValueError if host cannot be a host
    name.

    literal_only: whether to accept only IP addresses, so that no name server is asked.
    """
    flags = socket.AI_NUMERICHOST if literal_only else 0
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))


def literal(host: str, port: int) -> Sequence[Address]:
    """Return the address of a host that is an IP address, without asking a name server. Raises OSError or ValueError for a name."""
    return look_up(host, port, literal_only=True)


def canonical_addresses(
    addresses: Sequence[tuple[str, int]],
) -> tuple[list[tuple[str, int]], dict[tuple[str, int], str]]:
    """Return the canonical name and port of every address of each name, and a text for each name that has no address. Blocks.

    An address without a name stands for itself (client.dns.lookup=resolve_canonical_bootstrap_servers_only, KIP-235).
    """
    found: dict[tuple[str, int], None] = {}
    failed: dict[tuple[str, int], str] = {}
    for host, port in addresses:
        try:
            for address in look_up(host, port):
                found[socket.getnameinfo(address.sockaddr, socket.NI_NUMERICSERV)[0], port] = None
        except (OSError, ValueError) as error:
            failed[host, port] = str(error)
    return list(found), failed


class Route:
    """The addresses of one host and port, and the one to try next.

    pending: whether a look-up is running. error: why the last look-up failed; "" if it did not.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.pending = False
        self.error = ""
        self._remaining: list[Address] = []
        self._last_tried: Address | None = None

    @property
    def exhausted(self) -> bool:
        """Whether no address is left to try, so that the name has to be looked up before the next attempt."""
        return not self._remaining

    def next_address(self) -> Address:
        """Return the next address, and move on to the one after it. Only to be called if not exhausted."""
        self._last_tried = self._remaining.pop(0)
        return self._last_tried

    def forget(self) -> None:
        """Forget the addresses; the next attempt looks the name up again."""
        self._remaining = []

    def found(self, addresses: Sequence[Address]) -> None:
        """Store the result of a look-up. The address that was tried last is moved to the end."""
        self._remaining = sorted(addresses, key=lambda address: address == self._last_tried)
        self.error = "" if addresses else "no address"
        self.pending = False

    def failed(self, error: Exception) -> None:
        """Store the error of a look-up."""
        self._remaining = []
        self.error = str(error) or type(error).__name__
        self.pending = False


class Resolver:
    """Looks up the host names of routes in other threads. notify: called in such a thread when its look-up has ended, and only there.

    lookup: finds the addresses of a name, and may take long. literal: does the same where no name server is needed, and raises otherwise.

    A look-up cannot be interrupted, so it may last longer than the attempt that started it. Then the next attempt uses its result.
    """

    def __init__(self, notify: Callable[[], None], lookup: Lookup = look_up, literal: Lookup = literal) -> None:
        self._notify = notify
        self._lookup = lookup
        self._literal = literal

    def start(self, route: Route) -> None:
        """Start to look up the host name of a route, unless a look-up is running. For an IP address, and for
        every name while the interpreter exits, the result is stored when this returns.
        """
        if route.pending:
            return
        route.pending = True
        try:
            route.found(self._literal(route.host, route.port))
        except (OSError, ValueError, OverflowError):
            self._start_thread(route)

    def _start_thread(self, route: Route) -> None:
        try:
            threading.Thread(target=self._run, args=(route,), name="levada-resolver", daemon=True).start()
        except RuntimeError as error:
            if threading.main_thread().is_alive():
                route.failed(error)
            else:
                # At exit a producer flushes for some seconds yet, and from Python 3.12 on no thread can be started then.
                self._look_up(route)

    def _run(self, route: Route) -> None:
        self._look_up(route)
        self._notify()

    def _look_up(self, route: Route) -> None:
        try:
            route.found(self._lookup(route.host, route.port))
        except Exception as error:
            # Any exception: a route that stays pending would never be tried again.
            route.failed(error)

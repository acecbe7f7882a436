"""Connections through a proxy for code that waits: the clients of token endpoints and of the Schema Registry."""

from __future__ import annotations

import socket
import time
from http.client import HTTPConnection
from typing import Any

from levada.base.proxy import Proxy
from levada.net.proxy.handshake import ProxyError
from levada.net.proxy.tunnel import Tunnel
from levada.net.resolver import look_up


class ProxiedConnection(HTTPConnection):
    """An HTTP connection through a proxy, with TLS if an ssl.SSLContext is given. timeout: seconds to connect, and for each read later."""

    def __init__(self, host: str, port: int, proxy: Proxy, context: Any, timeout: float | None = None) -> None:
        if context is not None:
            self.default_port = 443
        super().__init__(host, port, timeout=timeout)
        self._proxy = proxy
        self._tls = context

    def connect(self) -> None:
        """Connect to the proxy, have it connect to the host, and do the TLS handshake. Raises OSError."""
        sock = open_tunnel(self._proxy, self.host, self.port, self.timeout)
        try:
            self.sock = sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise


def open_tunnel(proxy: Proxy, host: str, port: int, timeout_s: float | None) -> socket.socket:
    """Return a socket that a proxy has connected to a host. Raises OSError with the name of the proxy.

    timeout_s: seconds for all of it, and the timeout of the socket that is returned; None for no limit.
    """
    ends_s = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        targets = [host] if proxy.resolves_names else [str(found.sockaddr[0]) for found in look_up(host, port)]
        failure = OSError(f"{host} has no address")
        for target in targets:
            try:
                sock = _opened(proxy, target, port, ends_s)
            except (ProxyError, ConnectionError) as error:
                failure = error
                continue
            sock.settimeout(timeout_s)
            return sock
        raise failure
    except TimeoutError:
        raise TimeoutError(f"the proxy {proxy} did not connect to {host}:{port} in time") from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OSError(f"through the proxy {proxy}: {reason}") from error


def _opened(proxy: Proxy, host: str, port: int, ends_s: float | None) -> socket.socket:
    sock = socket.create_connection((proxy.host, proxy.port), _remaining_s(ends_s))
    try:
        tunnel = Tunnel(sock, proxy, host, port)
        while not tunnel.done:
            # Before each step, so that a proxy that sends single bytes slowly cannot keep the caller for longer.
            sock.settimeout(_remaining_s(ends_s))
            tunnel.step()
    except BaseException:
        sock.close()
        raise
    return sock


def _remaining_s(ends_s: float | None) -> float | None:
    if ends_s is None:
        return None
    remaining_s = ends_s - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s

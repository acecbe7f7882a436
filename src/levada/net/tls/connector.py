"""Makes the TLS transports of one client, or of one listener."""

from __future__ import annotations

import ssl

from levada.net.tls.context import ClientContext, TlsSettings
from levada.net.tls.transport import READ_BYTES, TlsTransport
from levada.net.transport import SocketLike


class TlsConnector:
    """The client's side. Raises ConfigError at construction where the settings give no context. Its transports are used under one lock."""

    def __init__(self, settings: TlsSettings) -> None:
        self._context = ClientContext(settings)
        self._scratch = memoryview(bytearray(READ_BYTES))

    def connect(self, socket: SocketLike, host: str) -> TlsTransport:
        """Return the transport of a connection to a host, which has to be named in the other side's certificate."""
        return TlsTransport(socket, self._context.get(), self._scratch, name=host)


class TlsAcceptor:
    """The listener's side."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._scratch = memoryview(bytearray(READ_BYTES))

    def accept(self, socket: SocketLike) -> TlsTransport:
        """Return the transport of an accepted connection."""
        return TlsTransport(socket, self._context, self._scratch, is_server=True)

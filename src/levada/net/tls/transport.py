"""TLS as a transport, like Java's SslTransportLayer: OpenSSL works on buffers in memory, whose bytes are sent over a non-blocking socket.

OpenSSL decrypts a whole TLS record at once, so decrypted bytes may be buffered while the socket is not readable: see has_buffered.
Encryption cannot be undone. So write() returns 0 until all encrypted bytes have been sent, and the caller passes the same bytes again, as
it does when a socket's send buffer is full.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from levada.net.tls.context import ClientContext, TlsSettings
from levada.net.tls.errors import closed_early, fault_of
from levada.net.transport import SHORT_BYTES, SocketLike, TransportLayer, plaintext

READ_BYTES: Final = 1 << 18
"""The most bytes that are read from a socket at once: sixteen TLS records, which OpenSSL then decrypts one by one."""
WRITE_BYTES: Final = 1 << 17
"""The most bytes that are encrypted before they are sent. More would wait in memory if the other side does not read."""


class TlsTransport:
    """The TLS transport of one connection, for the client's or the server's side.

    name: the host name that the certificate must have, if the context verifies host names. scratch: READ_BYTES of memory, shared by
    transports that are never used at the same time, for example because they are used under one lock.
    """

    __slots__ = (
        "_encrypted",
        "_ended",
        "_failure",
        "_incoming",
        "_may_have_more",
        "_name",
        "_outgoing",
        "_promised",
        "_raw",
        "_scratch",
        "_shaken",
        "_tls",
        "ready",
    )

    def __init__(
        self, socket: SocketLike, context: ssl.SSLContext, scratch: memoryview, *, name: str = "", is_server: bool = False
    ) -> None:
        self._raw: TransportLayer = plaintext(socket)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server, server_hostname=name or None)
        self._name = name
        self._scratch = scratch
        self._encrypted = b""
        self._promised = 0
        self.ready = False
        self._shaken = False
        self._ended = False
        self._failure: OSError | None = None
        """An error that occurred in a read that returned bytes; the next read raises it."""
        self._may_have_more = False

    @property
    def has_buffered(self) -> bool:
        """Whether read_into() has a result although the socket is not readable: bytes, the end of the stream, or an error."""
        return self._may_have_more

    @property
    def wants_write(self) -> bool:
        """Whether a part of the handshake waits until the socket can be written to."""
        return bool(self._encrypted)

    @property
    def peer_name(self) -> str:
        """The subject of the other side's verified certificate, as RFC 2253 text; "" if there is none, or before the handshake is done."""
        certificate: Any = self._tls.getpeercert() if self._shaken else None
        return distinguished_name(certificate["subject"]) if certificate else ""

    def handshake(self) -> None:
        """Continue the handshake as far as possible now. Raises TlsError, or another OSError, if it has failed."""
        try:
            while not self._shaken and not self._encrypted:
                self._shaken = self._step()
                self._send()
                if not self._shaken and not self._receive(SHORT_BYTES):
                    return
            self._send()
        except ssl.SSLError as error:
            self._send_quietly()
            raise fault_of(error, self._name, self._tls) from error
        except ConnectionError as error:
            raise closed_early() from error
        self.ready = self._shaken and not self._encrypted
        # Bytes that were received with the end of the handshake do not make the socket readable again.
        self._may_have_more = self.ready and self._incoming.pending > 0

    def _step(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into a buffer; return the number of bytes, 0 at the end of the stream, None if no bytes have arrived.

        Bytes that arrived before the connection failed are returned before the error is raised, like with a socket.
        """
        if self._failure is not None:
            raise self._failure
        count = 0
        try:
            while count < len(buffer) and not self._ended:
                try:
                    # With a buffer as argument, read() returns the number of bytes that it wrote to the buffer.
                    taken: Any = self._tls.read(len(buffer) - count, buffer[count:])
                    count += taken
                    self._ended = not taken
                except ssl.SSLWantReadError:
                    if not self._receive(SHORT_BYTES if len(buffer) <= SHORT_BYTES else READ_BYTES):
                        break
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # Kafka's frames have a length, so a stream that ends early is not taken for a shorter message.
            self._ended = True
        except OSError as error:
            self._failure = fault_of(error, self._name, self._tls) if isinstance(error, ssl.SSLError) else error
            if not count:
                raise self._failure from error
        self._may_have_more = count > 0 and (self._ended or self._failure is not None or count == len(buffer))
        if self._outgoing.pending:
            # OpenSSL answers a TLS message, such as a key update. The bytes that were read are returned even if sending fails; the next
            # call fails then.
            self._send_quietly()
        return count if count or self._ended else None

    def write(self, data: memoryview) -> int:
        """Encrypt at most WRITE_BYTES bytes and send them; return how many, 0 if not all of these are sent yet.

        After 0, the same bytes have to be passed again.
        """
        return self.write_pieces((data,))

    def write_pieces(self, pieces: Sequence[memoryview]) -> int:
        """Write several pieces one after the other; return the number of bytes like write().

        After 0, the same pieces have to be passed again.
        """
        if not self._promised:
            self._promised = self._encrypt(pieces)
        self._send()
        if self._encrypted:
            return 0
        taken, self._promised = self._promised, 0
        return taken

    def _encrypt(self, pieces: Sequence[memoryview]) -> int:
        taken = 0
        try:
            for piece in pieces:
                part = piece[: WRITE_BYTES - taken]
                taken += self._tls.write(part)
                if taken >= WRITE_BYTES:
                    break
        except ssl.SSLError as error:
            raise fault_of(error, self._name, self._tls) from error
        return taken

    def close(self) -> None:
        """Send close_notify, if the socket takes it at once, and close the socket."""
        if self._shaken:
            with suppress(ssl.SSLError):  # The close_notify of the other side is not waited for.
                self._tls.unwrap()
            self._send_quietly()
        self._raw.close()

    # The socket

    def _receive(self, most_bytes: int) -> bool:
        """Pass bytes of the socket, or the end of its stream, to OpenSSL. Return False if the socket has none now."""
        received = self._raw.read_into(self._scratch[:most_bytes])
        if received is None:
            return False
        if received:
            self._incoming.write(self._scratch[:received])
        else:
            self._incoming.write_eof()
        return True

    def _send(self) -> None:
        """Send OpenSSL's output until the socket takes no more."""
        if self._outgoing.pending:
            made = self._outgoing.read()
            self._encrypted += made
        while self._encrypted:
            sent = self._raw.write(memoryview(self._encrypted))
            if not sent:
                return
            self._encrypted = self._encrypted[sent:]

    def _send_quietly(self) -> None:
        with suppress(OSError):  # The caller reports another error or closes the connection, or its next call fails.
            self._send()


Subject: TypeAlias = Sequence[Sequence[tuple[str, str]]]
"""The subject of a certificate, as Python's ssl module returns it: parts from the outermost to the innermost, each with its attributes."""

_KEYWORDS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'[,+"\\<>;]|^[ #]| $')


def distinguished_name(subject: Subject) -> str:
    """Return a subject in the form of Java and RFC 2253, with the innermost part first, such as CN=alice,OU=Trading,O=Example."""
    return ",".join("+".join(f"{_KEYWORDS.get(name, name)}={_escaped(value)}" for name, value in part) for part in reversed(subject))


def _escaped(value: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found.group(), value)


class TlsConnector:
    """Makes the TLS transports of a client's connections, which must be used under one lock.

    Raises ConfigError for settings that cannot be used.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._context = ClientContext(settings)
        self._scratch = memoryview(bytearray(READ_BYTES))

    def connect(self, socket: SocketLike, host: str) -> TlsTransport:
        """Return the transport of a connection. host: the name that the broker's certificate must have, unless the settings accept any."""
        return TlsTransport(socket, self._context.get(), self._scratch, name=host)


class TlsAcceptor:
    """Makes the TLS transports of a listener's connections, which must be used under one lock."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._scratch = memoryview(bytearray(READ_BYTES))

    def accept(self, socket: SocketLike) -> TlsTransport:
        """Return the transport of an accepted connection."""
        return TlsTransport(socket, self._context, self._scratch, is_server=True)

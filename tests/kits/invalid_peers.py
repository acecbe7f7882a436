"""Servers that are not Kafka brokers, for clients with a wrong port. serving() runs each of these functions as a server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Answer = Callable[[socket.socket], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Run a server that passes each connection to `answer`, one after another. Yields its host:port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    answer(connection)

    thread = threading.Thread(target=serve, name="invalid peer", daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def web_server(connection: socket.socket) -> None:
    """Answer with HTTP status 400, as a web server answers a request that is not HTTP."""
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>400 Bad Request</html>")


def silent_server(connection: socket.socket) -> None:
    """Read until the client closes the connection, and never answer."""
    while connection.recv(1000):
        pass


def talkative_server(connection: socket.socket) -> None:
    """Answer with the size of a frame of two gigabytes, as bytes of another protocol may be read."""
    connection.recv(1000)
    connection.sendall(b"\x7f\xff\xff\xff" + b"\x00" * 100)


def mumbling_server(connection: socket.socket) -> None:
    """Answer with a frame that has the right correlation id and an invalid body."""
    request = connection.recv(1000)
    connection.sendall(b"\x00\x00\x00\x0c" + request[8:12] + b"\xff" * 8)


def alerting_server(connection: socket.socket) -> None:
    """Answer with a fatal TLS alert (internal error), as Java does for bytes that are not TLS."""
    connection.recv(1000)
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x50")


def tls_server(certificate: Path, key: Path) -> Answer:
    """Return a server function that does a TLS handshake, and closes the connection if the handshake fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection: socket.socket) -> None:
        # The handshake takes the socket over; its end, with or without success, is the end of the connection.
        with context.wrap_socket(connection.dup(), server_side=True) as secured:
            secured.recv(1000)

    return answer


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate and its key with openssl. Returns the paths of both files."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def closed_port() -> str:
    """Return the host:port of a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"

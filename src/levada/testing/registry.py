"""A schema registry for tests, which starts in milliseconds."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from levada.testing.registry_state import RegistryState

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Fault:
    """A fault that a test has requested for one request. Without arguments it is no fault.

    status: the HTTP status of the answer; the request is not executed. None: execute the request. retry_after_s: the seconds in the header
    Retry-After, None for no header. delay_s: the seconds to wait before the answer. lose: whether to execute the request and close the
    connection without an answer.
    """

    status: int | None = None
    retry_after_s: int | None = None
    delay_s: float = 0.0
    lose: bool = False


class RegistryFaults:
    """The faults of the next requests. Each request takes one fault, in the order in which the test added them."""

    def __init__(self) -> None:
        self._next: deque[Fault] = deque()

    def answer(self, status: int, times: int = 1, *, retry_after: int | None = None) -> None:
        """Answer the next `times` requests with an HTTP status, such as 429 or 503, instead of executing them. retry_after: the seconds in
        the header Retry-After, None for no header.
        """
        self._next.extend([Fault(status=status, retry_after_s=retry_after)] * times)

    def delay(self, seconds: float, times: int = 1) -> None:
        """Delay the answers to the next `times` requests by `seconds`."""
        self._next.extend([Fault(delay_s=seconds)] * times)

    def lose_answer(self, times: int = 1) -> None:
        """Execute the next `times` requests, and close their connections without an answer."""
        self._next.extend([Fault(lose=True)] * times)

    def take(self) -> Fault:
        """Remove and return the fault for the next request; if there is none, return a Fault without effect."""
        try:
            return self._next.popleft()
        except IndexError:
            return Fault()


class EmbeddedRegistry:
    """A schema registry on a free port of 127.0.0.1, in threads of this process. It runs until the `with` block ends.

    Any client of Confluent's REST API can use it::

        with EmbeddedRegistry() as server:
            registry = SchemaRegistryClient(schema_registry_url=server.url)

    port: 0 for any free port. user_info: "user:password" that every request must have. token: a bearer token instead. ssl_context: for
    https://. Avro schemas are checked by the subject's compatibility level; for other types only the type is compared. The data is in
    memory only. It is kept from close() to the next start().
    """

    def __init__(
        self, *, port: int = 0, user_info: str | None = None, token: str | None = None, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.state = RegistryState()
        self.faults = RegistryFaults()
        self.requests: list[str] = []
        """Method and target of each request so far."""
        self._port = port
        self._tls = ssl_context
        self._expected = _authorization(user_info, token)
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def start(self) -> Self:
        """Start the registry without a `with` block. The caller has to call close(). Raises OSError if the port is taken."""
        self._ending.clear()
        self._server = _Server(("127.0.0.1", self._port), self, self._tls)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="levada-embedded-registry")
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the registry: close its port and connections and end its threads."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        self._ending.set()
        server.shutdown()
        thread.join()
        server.end_connections()
        server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the registry, for `schema.registry.url`. Raises RuntimeError before start()."""
        if self._server is None:
            raise RuntimeError("EmbeddedRegistry has no port yet: enter its `with` block, or call start(), first")
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"

    def respond(self, method: str, target: str, authorization: str | None, body: bytes) -> tuple[int, Any, Fault]:
        """Take the next fault, add a request to `requests` and execute it; return the HTTP status, the JSON document and the fault. A
        request with wrong credentials, or whose fault has a status, is not executed. The server's threads call it.
        """
        fault = self.faults.take()
        if fault.delay_s:
            self._ending.wait(fault.delay_s)
        with self._lock:
            self.requests.append(f"{method} {target}")
            if fault.status is not None:
                return fault.status, {"error_code": fault.status, "message": "as the test asked for"}, fault
            if authorization != self._expected and self._expected is not None:
                return 401, {"error_code": 401, "message": "Unauthorized"}, fault
            parts = urlsplit(target)
            return *self.state.answer(method, parts.path, dict(parse_qsl(parts.query)), body), fault


def _authorization(user_info: str | None, token: str | None) -> str | None:
    if user_info is not None:
        return f"Basic {base64.b64encode(user_info.encode()).decode()}"
    return None if token is None else f"Bearer {token}"


class _Server(ThreadingHTTPServer):
    """An HTTP server with one thread for each connection. server_close() waits until all threads have ended."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], registry: EmbeddedRegistry, tls: ssl.SSLContext | None) -> None:
        self.registry = registry
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._ended = False
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in a thread of its own."""
        # The handshake happens at the first read, in this thread, so that a client that never begins it delays no other client.
        connection = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) if self._tls else request
        with self._open_lock:
            if not self._ended:
                self._open.add(connection)
        try:
            if connection in self._open:
                super().finish_request(connection, client_address)
        except OSError:
            logger.debug("a connection ended", exc_info=True)
        finally:
            with self._open_lock:
                self._open.discard(connection)
            connection.close()

    def end_connections(self) -> None:
        """Shut down all connections, so that their threads end. Later connections are closed without an answer."""
        with self._open_lock:
            self._ended = True
            for connection in self._open:
                with suppress(OSError):  # The client has closed it already.
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, document, fault = self.server.registry.respond(self.command, self.path, self.headers.get("Authorization"), body)
        if fault.lose:
            self.close_connection = True
            return
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Content-Length", str(len(data)))
        if fault.retry_after_s is not None:
            self.send_header("Retry-After", str(fault.retry_after_s))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _respond

    def log_message(self, format: str, *arguments: Any) -> None:
        """Do nothing, so that requests are not printed. They are in EmbeddedRegistry.requests."""

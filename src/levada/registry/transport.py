"""Sends the HTTP requests of SchemaRegistryClient. Idle connections are kept, and any thread may reuse them."""

from __future__ import annotations

import base64
import io
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Any, cast

from levada.base.clock import SystemClock
from levada.base.forks import lock_for_forks
from levada.config.registry import RegistryConfig, RegistryUrl, is_header_text
from levada.errors import ConfigError, TokenError
from levada.registry.attempts import Attempt, NoAnswer
from levada.registry.endpoints import MEDIA_TYPE, Answer, Request
from levada.registry.errors import RegistryProtocolError

if TYPE_CHECKING:
    from levada.registry.tokens import Tokens

BEARER = "Bearer "
MOST_KEPT = 8
PIECE = 1 << 16
LONGEST_RETRY_AFTER_DIGITS = 9
"""How many digits of a Retry-After header are parsed: some thirty years in seconds. retries.max.wait.ms limits the pause."""


class _Reader(io.RawIOBase):
    """Reads from a socket until a deadline, so that a server that sends single bytes slowly cannot block a call for longer.

    remaining_s: returns the seconds to wait for the next bytes, and raises TimeoutError after the deadline.
    """

    def __init__(self, sock: socket.socket, remaining_s: Callable[[], float]) -> None:
        super().__init__()
        self._socket = sock
        self._received: Any = sock.makefile("rb", buffering=0)
        self._remaining_s = remaining_s

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Receive available bytes into the buffer, and return their number, 0 at the end.

        Raises TimeoutError if no byte arrives within http.read.timeout.ms, or before the deadline.
        """
        self._socket.settimeout(self._remaining_s())
        received: int | None = self._received.readinto(buffer)
        return received

    def close(self) -> None:
        """Close this reader, but not the socket."""
        self._received.close()
        super().close()


class _ReadSide:
    """The part of a socket's interface that HTTPResponse uses."""

    def __init__(self, sock: socket.socket, remaining_s: Callable[[], float]) -> None:
        self._reader = _Reader(sock, remaining_s)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the file object from which HTTPResponse reads."""
        return io.BufferedReader(self._reader)


class Transport:
    """Sends requests to the addresses of a registry, over connections that are kept for reuse. Thread-safe."""

    def __init__(self, config: RegistryConfig, now_ms: Callable[[], int], user_agent: str) -> None:
        self._now_ms = now_ms
        self._connect_s = config.http_connect_timeout_ms / 1000
        self._proxy = config.proxy_url
        self._read_s = config.http_read_timeout_ms / 1000
        self._max_bytes = config.max_response_bytes
        self._tokens = _tokens(config)
        self._authorization = _authorization(config, self._tokens)
        self._tls = _tls_context(config) if any(url.scheme == "https" for url in config.schema_registry_url) else None
        self._headers = {"Accept": f"{MEDIA_TYPE}, application/json", "User-Agent": user_agent, **_of_confluent_cloud(config)}
        self._kept: dict[RegistryUrl, list[HTTPConnection]] = {}
        self._lock = lock_for_forks()
        self._pid = os.getpid()
        self._closed = False

    def send(self, attempt: Attempt, request: Request[Any]) -> Answer | NoAnswer:
        """Send a request to one address. Return the answer, or a NoAnswer with the reason if the request fails.

        If no OAuth token can be requested now, the request is not sent. If the registry refuses a token of an OAuth endpoint that is not
        new, the request is sent again with another one, once. A request that may be repeated is sent on an idle connection if there is
        one. If it fails there, it is sent again on a new connection, unless it has timed out.

        Raises TokenError if asking for a token again would not help, and RegistryProtocolError if the answer exceeds max.response.bytes.
        """
        deadline_ms = self._now_ms() + attempt.timeout_ms
        content = {} if request.payload is None else {"Content-Type": MEDIA_TYPE}
        try:
            headers = {**self._headers, **content, **self._authorization(attempt.url)}
            outcome = self._send(attempt, request, headers, deadline_ms)
            if self._has_another_token(outcome, headers):
                outcome = self._send(attempt, request, {**headers, **self._authorization(attempt.url)}, deadline_ms)
        except TokenError as error:
            if not error.retriable:
                raise
            return NoAnswer(f"there is no token for it: {error}", sent=False)
        return outcome

    def _has_another_token(self, outcome: Answer | NoAnswer, headers: Mapping[str, str]) -> bool:
        """Whether the registry has refused the token of a request, and there may be another one."""
        if self._tokens is None or not isinstance(outcome, Answer) or outcome.status != HTTPStatus.UNAUTHORIZED:
            return False
        return self._tokens.refused(headers["Authorization"].removeprefix(BEARER))

    def _send(self, attempt: Attempt, request: Request[Any], headers: Mapping[str, str], deadline_ms: int) -> Answer | NoAnswer:
        kept = self._take(attempt.url) if request.repeatable else None
        if kept is not None:
            outcome = self._exchange(kept, attempt, request, headers, deadline_ms)
            # No answer: the registry or a proxy may have closed the idle connection. So the request is sent again on a new connection.
            if isinstance(outcome, Answer) or outcome.timed_out:
                return outcome
        return self._on_new_connection(attempt, request, headers, deadline_ms)

    def close(self) -> None:
        """Close the idle connections. A connection that is in use is closed after its answer."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, {}
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def _on_new_connection(
        self, attempt: Attempt, request: Request[Any], headers: Mapping[str, str], deadline_ms: int
    ) -> Answer | NoAnswer:
        connection = self._new(attempt)
        try:
            connection.timeout = self._remaining_s(self._connect_s, deadline_ms)
            connection.connect()
        except (OSError, UnicodeError) as fault:
            connection.close()
            return NoAnswer(_reason(fault, attempt.url), sent=False)
        return self._exchange(connection, attempt, request, headers, deadline_ms)

    def _exchange(
        self, connection: HTTPConnection, attempt: Attempt, request: Request[Any], headers: Mapping[str, str], deadline_ms: int
    ) -> Answer | NoAnswer:
        def remaining_s() -> float:
            return self._remaining_s(self._read_s, deadline_ms)

        connection.response_class = cast(Any, lambda sock, **given: HTTPResponse(cast(Any, _ReadSide(sock, remaining_s)), **given))
        reusable = False
        try:
            connection.sock.settimeout(remaining_s())
            connection.request(request.method, attempt.url.path + request.target, request.payload, dict(headers))
            with connection.getresponse() as response:
                body = self._read_body(response, request, attempt)
            reusable = not response.will_close
            return Answer(response.status, body, response.getheader("Location", ""), _retry_after_ms(response))
        except (OSError, HTTPException) as fault:
            return NoAnswer(_reason(fault, attempt.url), sent=True, timed_out=isinstance(fault, TimeoutError))
        finally:
            if reusable:
                self._give_back(attempt.url, connection)
            else:
                connection.close()

    def _read_body(self, response: HTTPResponse, request: Request[Any], attempt: Attempt) -> bytes:
        """Return the body of an answer. Read it in pieces, and raise RegistryProtocolError as soon as it exceeds max.response.bytes."""
        body = bytearray()
        while piece := response.read1(PIECE):
            body += piece
            if len(body) > self._max_bytes:
                raise RegistryProtocolError(f"{request.what}: {attempt.url} answered with more than max.response.bytes={self._max_bytes}")
        if response.length:
            raise IncompleteRead(bytes(body), response.length)
        return bytes(body)

    def _remaining_s(self, most_s: float, deadline_ms: int) -> float:
        """Return how many seconds to wait: until the deadline, but at most most_s. Raises TimeoutError after the deadline."""
        remaining_ms = deadline_ms - self._now_ms()
        if remaining_ms <= 0:
            raise TimeoutError
        return min(most_s, remaining_ms / 1000)

    def _new(self, attempt: Attempt) -> HTTPConnection:
        url = attempt.url
        if self._proxy is not None:
            # Loaded here, because few programs use a proxy.
            from levada.net.proxy.blocking import ProxiedConnection

            return ProxiedConnection(url.host, url.port, self._proxy, self._tls if url.scheme == "https" else None)
        if url.scheme == "https":
            return HTTPSConnection(url.host, url.port, context=self._tls)
        return HTTPConnection(url.host, url.port)

    def _take(self, url: RegistryUrl) -> HTTPConnection | None:
        with self._lock:
            # A child process after fork() has the connections of its parent, but must not use them.
            if self._pid != os.getpid():
                self._kept, self._pid = {}, os.getpid()
            kept = self._kept.get(url)
            return kept.pop() if kept else None

    def _give_back(self, url: RegistryUrl, connection: HTTPConnection) -> None:
        with self._lock:
            kept = self._kept.setdefault(url, [])
            if not self._closed and len(kept) < MOST_KEPT:
                kept.append(connection)
                return
        connection.close()


def _tokens(config: RegistryConfig) -> Tokens | None:
    """Return the tokens of an endpoint; None without one."""
    if config.bearer_auth_issuer_endpoint_url is None:
        return None
    # Loaded here, because few programs use a token endpoint.
    from levada.registry.tokens import Tokens

    return Tokens.of(config, SystemClock())


def _authorization(config: RegistryConfig, tokens: Tokens | None) -> Callable[[RegistryUrl], Mapping[str, str]]:
    """Return a function that returns the Authorization header for an address."""
    if (provider := config.bearer_auth_token_provider) is not None:
        return lambda _: {"Authorization": f"{BEARER}{_provided(provider)}"}
    if tokens is not None:
        return lambda _: {"Authorization": f"{BEARER}{tokens.current()}"}
    if config.bearer_auth_token is not None:
        bearer = {"Authorization": f"{BEARER}{config.bearer_auth_token}"}
        return lambda _: bearer
    by_url = {url: _basic(config.basic_auth_user_info or url.user_info) for url in config.schema_registry_url}
    return by_url.__getitem__


def _provided(provider: Callable[[], str]) -> str:
    """Return the token of a program's function. Raises TokenError, which does not quote the token."""
    # Loaded here, because few programs have such a function.
    from levada.oauth.token import called

    token = called(provider, lambda found: found, {}).value
    if not is_header_text(token):
        raise TokenError(
            "the function that gives tokens returned one that is not printable ASCII without white space; "
            "does it end with a line end from a file?"
        )
    return token


def _of_confluent_cloud(config: RegistryConfig) -> dict[str, str]:
    """Return the headers by which Confluent Cloud finds the registry and the rights of a token."""
    pools = ",".join(config.bearer_auth_identity_pool_id)
    headers = {"target-sr-cluster": config.bearer_auth_logical_cluster, "Confluent-Identity-Pool-Id": pools}
    return {name: value for name, value in headers.items() if value}


def _basic(user_info: str | None) -> Mapping[str, str]:
    return {} if user_info is None else {"Authorization": f"Basic {base64.b64encode(user_info.encode()).decode()}"}


def _tls_context(config: RegistryConfig) -> ssl.SSLContext:
    if config.ssl_context is not None:
        context: ssl.SSLContext = config.ssl_context
        return context
    try:
        context = ssl.create_default_context(cafile=config.ssl_ca_location)
    except OSError as fault:
        raise ConfigError(f"'ssl.ca.location': {config.ssl_ca_location} cannot be read as PEM: {fault}") from fault
    if config.ssl_certificate_location is not None:
        try:
            # Pass "" instead of None, because OpenSSL would otherwise ask for a password on the terminal.
            context.load_cert_chain(config.ssl_certificate_location, config.ssl_key_location, config.ssl_key_password or "")
        except OSError as fault:
            files = " and ".join(filter(None, [config.ssl_certificate_location, config.ssl_key_location]))
            raise ConfigError(f"'ssl.certificate.location': {files} cannot be read as certificate and key: {fault}") from fault
    return context


def _retry_after_ms(response: HTTPResponse) -> int | None:
    """Return the value of the Retry-After header in ms. None without this header, or if it has a date, which registries do not send."""
    value = response.getheader("Retry-After", "").strip()
    return int(value[:LONGEST_RETRY_AFTER_DIGITS]) * 1000 if value.isascii() and value.isdecimal() else None


def _reason(fault: Exception, url: RegistryUrl) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {fault.verify_message}; set ssl.ca.location"
    if isinstance(fault, ssl.SSLError):
        return f"TLS failed: {fault.reason or fault}; is this a plain http:// address?"
    if isinstance(fault, TimeoutError):
        return str(fault) or "timed out"
    if isinstance(fault, ConnectionRefusedError):
        return "connection refused"
    if isinstance(fault, HTTPException) and url.scheme == "http":
        return f"did not answer as HTTP: {type(fault).__name__} {fault}".rstrip() + "; is this an https:// address?"
    return str(fault) or type(fault).__name__

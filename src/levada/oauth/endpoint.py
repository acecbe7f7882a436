"""A token from an OAuth 2 token endpoint, over HTTP: the one place of this package that does I/O. It runs in a helper's thread.

Whoever writes a configuration decides which address is asked, and with which secret (CVE-2025-27817). So there is no other scheme than
https, unless the program itself has named the address; nothing is followed to another address; and an answer is short, quick, and of one
form. Neither a secret nor a token is in any message.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from socket import SHUT_RDWR, socket
from threading import Event, Timer
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from levada.base.clock import Clock
from levada.credentials import OAuthToken, unanswered
from levada.errors import ConfigError, TokenError
from levada.net.sasl import jwt

DEADLINE_S: Final = 10.0
LARGEST_ANSWER: Final = 64 << 10
_PIECE: Final = 8 << 10
_LONGEST_REASON: Final = 200
_LONGEST_LIFETIME_S: Final = 1e9
_TRY_AGAIN: Final = frozenset({408, 425, 429})
_FORM: Final = "application/x-www-form-urlencoded"
_CUT_OFF: Final = "the answer was cut off"

_allowed: frozenset[str] | None = None


def allow_token_endpoints(urls: Iterable[str] | None) -> None:
    """Have this process ask these token endpoints and no others, whatever configurations say. None: any with https.

    Only an endpoint that is named here may have http://. Java has the system property org.apache.kafka.sasl.oauthbearer.allowed.urls
    for it. Meant to be called once, at the start of a program.
    """
    global _allowed
    if isinstance(urls, str):
        raise TypeError("allow_token_endpoints() takes a list of URLs, not text")
    _allowed = None if urls is None else frozenset(urls)


def checked_url(url: str) -> SplitResult:
    """Return the parts of a token endpoint's address. Raises ConfigError for one that must not be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ConfigError("'sasl.oauthbearer.token.endpoint.url': expected https://host/path")
    if parts.username is not None or parts.fragment:
        raise ConfigError("'sasl.oauthbearer.token.endpoint.url': user, password and fragment have no place in it")
    if _allowed is not None and url not in _allowed:
        raise ConfigError(
            f"'sasl.oauthbearer.token.endpoint.url': {url} is not among the addresses that this program allows "
            "(levada.oauth.allow_token_endpoints)"
        )
    if parts.scheme == "http" and _allowed is None:
        raise ConfigError(
            f"'sasl.oauthbearer.token.endpoint.url': {url} has no https, so everybody on the way could read the secret and the token; a "
            "program that wants that names the address with levada.oauth.allow_token_endpoints([...])"
        )
    return parts


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What an endpoint is asked. form: what changes with every request is made anew each time. basic: user and password, "" for none."""

    url: str
    form: Callable[[], Mapping[str, str]] = field(repr=False)
    basic: str = field(default="", repr=False)
    ca_location: str | None = None


def fetch(request: TokenRequest, extensions: Mapping[str, str], clock: Clock) -> OAuthToken:
    """Ask for a token. Raises TokenError: retriable where nobody has refused; ConfigError for an address that is not allowed."""
    parts = checked_url(request.url)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": _FORM, "Cache-Control": "no-store"}
    if request.basic:
        headers["Authorization"] = f"Basic {base64.b64encode(request.basic.encode()).decode()}"
    body = urlencode(request.form()).encode()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with _deadline(_connection(parts, request.ca_location)) as connection:
            connection.request("POST", target, body, headers)
            with connection.getresponse() as response:
                return _token_of(request.url, response, _read(response), extensions, clock)
    except ssl.SSLCertVerificationError as error:
        raise TokenError(f"{request.url}: its certificate is not accepted: {error.verify_message}; https.ca.location") from None
    except (OSError, HTTPException) as error:
        reason = f"no answer within {DEADLINE_S:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise unanswered(f"{request.url}: {reason[:_LONGEST_REASON]!r}") from None


@contextmanager
def _deadline(connection: HTTPConnection) -> Iterator[HTTPConnection]:
    """Connect, and end the connection at the end of the block, or at the deadline: an answer may trickle, and then no read times out."""
    late = Event()
    connected: list[socket] = []

    def cut() -> None:
        late.set()
        for sock in connected:
            with suppress(OSError):  # It has ended by itself.
                sock.shutdown(SHUT_RDWR)

    timer = Timer(DEADLINE_S, cut)
    timer.daemon = True
    # At interpreter exit no thread can be started (Python 3.12), while a producer still flushes. Then each read alone is bounded.
    with suppress(RuntimeError):
        timer.start()
    try:
        connection.connect()
        connected.append(connection.sock)
        if late.is_set():
            raise TimeoutError
        yield connection
    except (OSError, HTTPException, TokenError):
        # An answer that was cut may look like one that is wrong.
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        connection.close()


def _connection(parts: SplitResult, ca_location: str | None) -> HTTPConnection:
    """Return a connection, through the proxy that the environment names, if any (https_proxy, http_proxy, no_proxy)."""
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    context = ssl.create_default_context(cafile=ca_location) if parts.scheme == "https" else None
    named = "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")
    if not named:
        return HTTPConnection(host, port, timeout=DEADLINE_S) if context is None else _secured(host, port, context)
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if not proxy.hostname:
        raise TokenError(f"the environment names no usable proxy for {parts.scheme}")
    through = (proxy.hostname, proxy.port or 80)
    connection = HTTPConnection(*through, timeout=DEADLINE_S) if context is None else _secured(*through, context)
    # Of http, too, nothing but a tunnel: so a proxy is no other address to ask, and reads no more than it has to.
    connection.set_tunnel(host, port, _proxy_login(proxy))
    return connection


def _secured(host: str, port: int, context: ssl.SSLContext) -> HTTPSConnection:
    return HTTPSConnection(host, port, timeout=DEADLINE_S, context=context)


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _read(response: HTTPResponse) -> bytes:
    body = bytearray()
    try:
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise HTTPException(f"the answer is longer than {LARGEST_ANSWER} bytes")
    except IncompleteRead:
        raise HTTPException(_CUT_OFF) from None
    # Python says so only of an answer in chunks. With a Content-Length, this is what has not come of it.
    if response.length:
        raise HTTPException(_CUT_OFF)
    return bytes(body)


def _token_of(url: str, response: HTTPResponse, body: bytes, extensions: Mapping[str, str], clock: Clock) -> OAuthToken:
    status, answer = response.status, _document(body)
    if 300 <= status < 400:
        raise TokenError(f"{url} answered with HTTP {status}, a redirect, which is not followed: give the endpoint's own address")
    if status != 200:
        reason = _shown(answer, "error") + _shown(answer, "error_description")
        kind = unanswered if status in _TRY_AGAIN or status >= 500 else TokenError
        raise kind(f"{url} answered with HTTP {status}{reason}")
    if response.getheader("Content-Encoding", "identity").lower() != "identity":
        raise TokenError(f"{url} answered with a compressed body, which was not asked for")
    token = answer.get("access_token") or answer.get("id_token")
    if not isinstance(token, str) or not token:
        raise TokenError(f"{url} answered without an access_token that is text")
    return OAuthToken(token, None if _says_when_it_ends(token) else _end_of(answer, clock), extensions)


def _says_when_it_ends(token: str) -> bool:
    """Whether the token is a JSON web token with an end of its own, which brokers go by; it is read where all tokens are."""
    try:
        return jwt.expiry_s(token) is not None
    except jwt.JwtError:
        # The end that it has is no time. Where it is read, that is an error.
        return True


def _end_of(answer: Mapping[str, Any], clock: Clock) -> float | None:
    lifetime_s = answer.get("expires_in")
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float) or not 0 < lifetime_s < _LONGEST_LIFETIME_S:
        return None
    return clock.wall_ms() / 1000 + lifetime_s


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(answer: Mapping[str, Any], name: str) -> str:
    """Return a field of a refusal as text of ours: what comes from elsewhere can break no log line, and is short."""
    value = answer.get(name)
    return f", {value[:_LONGEST_REASON]!r}" if isinstance(value, str) and value else ""

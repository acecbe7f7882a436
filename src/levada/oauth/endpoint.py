"""Gets a token from an OAuth 2 token endpoint over HTTP, with blocking calls. Kafka clients call it on a helper thread, the registry client
on the thread that needs the token.

The author of a configuration decides which address gets a request, and with which secret (CVE-2025-27817). So only https is allowed, unless
the program itself names the address. Redirects are not followed. Size, time and form of an answer are limited. No message contains a secret
or a token.
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
from levada.base.proxy import Proxy
from levada.credentials import OAuthToken, unanswered
from levada.errors import ConfigError, TokenError
from levada.net.proxy.blocking import ProxiedConnection
from levada.net.sasl import jwt

OPTION: Final = "sasl.oauthbearer.token.endpoint.url"
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
    """Allow only these token endpoints in this process, whatever its configurations say. None: allow all with https.

    An endpoint with http:// must be named here. Java has the system property org.apache.kafka.sasl.oauthbearer.allowed.urls for the same
    purpose. Call this once, at the start of a program.
    """
    global _allowed
    if isinstance(urls, str):
        raise TypeError("allow_token_endpoints() takes a list of URLs, not text")
    _allowed = None if urls is None else frozenset(urls)


def checked_url(url: str, option: str = OPTION) -> SplitResult:
    """Return the parts of a token endpoint's address. option: gives the address, for errors.

    Raises ConfigError for an address that is invalid or not allowed.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ConfigError(f"'{option}': expected https://host/path")
    if parts.username is not None or parts.fragment:
        raise ConfigError(f"'{option}': it must not contain user, password or fragment")
    if _allowed is not None and url not in _allowed:
        raise ConfigError(f"'{option}': {url} is not among the addresses that this program allows (levada.oauth.allow_token_endpoints)")
    if parts.scheme == "http" and _allowed is None:
        raise ConfigError(
            f"'{option}': {url} is not https, so the secret and the token could be read on the network; a "
            "program can allow the address with levada.oauth.allow_token_endpoints([...])"
        )
    return parts


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request for a token. form: returns the form's fields; called for each request. basic: "user:password", or "" for none.

    option: gives the URL, for errors.
    """

    url: str
    form: Callable[[], Mapping[str, str]] = field(repr=False)
    basic: str = field(default="", repr=False)
    ca_location: str | None = None
    proxy: Proxy | None = None
    """The proxy to use; None for the proxy of the environment, if any."""
    option: str = OPTION


def fetch(request: TokenRequest, extensions: Mapping[str, str], clock: Clock) -> OAuthToken:
    """Request a token. extensions: the SASL extensions of the token.

    Raises ConfigError for an address that is invalid or not allowed. Raises TokenError: retriable if no complete answer of at most
    LARGEST_ANSWER bytes arrives within DEADLINE_S seconds, or if the status is 408, 425, 429, or 500 and above. Not retriable for other
    statuses, an answer without a token, a certificate that is not accepted, an unusable proxy, and a form that cannot be made.
    """
    parts = checked_url(request.url, request.option)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": _FORM, "Cache-Control": "no-store"}
    if request.basic:
        headers["Authorization"] = f"Basic {base64.b64encode(request.basic.encode()).decode()}"
    body = urlencode(request.form()).encode()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with _deadline(_connection(parts, request)) as connection:
            connection.request("POST", target, body, headers)
            with connection.getresponse() as response:
                return _token_of(request.url, response, _read(response), extensions, clock)
    except ssl.SSLCertVerificationError as error:
        raise TokenError(f"{request.url}: its certificate is not accepted: {error.verify_message}; https.ca.location") from None
    except (OSError, HTTPException) as error:
        late = f"no answer within {DEADLINE_S:g} s" + (f" through the proxy {request.proxy}" if request.proxy else "")
        reason = late if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise unanswered(f"{request.url}: {reason[:_LONGEST_REASON]!r}") from None


@contextmanager
def _deadline(connection: HTTPConnection) -> Iterator[HTTPConnection]:
    """Connect, and close the connection at the end of the block. Shut it down at the deadline.

    The deadline is needed because no single read times out if the answer arrives in small pieces.
    """
    late = Event()
    connected: list[socket] = []

    def cut() -> None:
        late.set()
        for sock in connected:
            with suppress(OSError):  # The connection has ended already.
                sock.shutdown(SHUT_RDWR)

    timer = Timer(DEADLINE_S, cut)
    timer.daemon = True
    # At interpreter exit Python 3.12 cannot start a thread, but a producer may still flush. Then only each read has a timeout.
    with suppress(RuntimeError):
        timer.start()
    try:
        connection.connect()
        connected.append(connection.sock)
        if late.is_set():
            raise TimeoutError
        yield connection
    except (OSError, HTTPException, TokenError):
        # An answer that the deadline has cut off may look like an invalid answer.
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        connection.close()


def _connection(parts: SplitResult, request: TokenRequest) -> HTTPConnection:
    """Return a connection that is not opened yet. It uses the proxy of the request, else that of the environment, if any (https_proxy,
    http_proxy, no_proxy).
    """
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    context = ssl.create_default_context(cafile=request.ca_location) if parts.scheme == "https" else None
    if request.proxy is not None:
        return ProxiedConnection(host, port, request.proxy, context, DEADLINE_S)
    named = "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")
    if not named:
        return HTTPConnection(host, port, timeout=DEADLINE_S) if context is None else _secured(host, port, context)
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if not proxy.hostname:
        raise TokenError(f"the environment names no usable proxy for {parts.scheme}")
    through = (proxy.hostname, proxy.port or 80)
    connection = HTTPConnection(*through, timeout=DEADLINE_S) if context is None else _secured(*through, context)
    # A tunnel for http as well: so the proxy only forwards bytes, and the request goes to the endpoint itself.
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
    # Python raises IncompleteRead only for an answer in chunks. With Content-Length, `length` is the number of missing bytes.
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
    """Whether the token is a JSON web token that contains its expiry. Brokers use that; levada.oauth.token reads it for all tokens."""
    try:
        return jwt.expiry_s(token) is not None
    except jwt.JwtError:
        # The token has an expiry that is not a valid time. `checked` raises the error for it.
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
    """Return a field of an error answer for a message: short, and escaped, so that the endpoint cannot forge log lines."""
    value = answer.get(name)
    return f", {value[:_LONGEST_REASON]!r}" if isinstance(value, str) and value else ""

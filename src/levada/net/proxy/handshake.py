"""The handshake with a proxy, before the connection belongs to the broker: SOCKS5 (RFC 1928, RFC 1929), or HTTP's CONNECT (RFC 9110).

A handshake is a generator. It yields a Step: bytes to send, and how many bytes it can take next. It is resumed with bytes that have
arrived: at least one, at most that many. So it never takes a byte that follows the proxy's answer. It raises ProxyError if the proxy
refuses, or answers with something else.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from levada.base.proxy import Proxy
from levada.base.text import escaped

LONGEST_HEAD: Final = 16 << 10
"""The most bytes of an HTTP answer that are read."""
_LONGEST_SHOWN = 100
_HTTP = b"HTTP/1."
_END_OF_HEAD = b"\r\n\r\n"
_PROXY_LOGIN_WANTED = 407
_SENDABLE_HOST = re.compile(rb"[0-9A-Za-z._:%-]{1,255}")

_VERSION, _LOGIN_VERSION, _CONNECT, _RESERVED = 5, 1, 1, 0
_NO_LOGIN, _BY_PASSWORD, _NONE_ACCEPTED = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES: Final = {_IPV4: 4, _IPV6: 16}
_REPLIES: Final[Mapping[int, str]] = {
    1: "it cannot connect to {target}, and gives no reason",
    2: "its rules do not allow a connection to {target}",
    3: "it cannot reach the network of {target}",
    4: "it cannot reach {target}: host unreachable, or a name that it cannot resolve",
    5: "{target} refused its connection: nothing listens there",
    6: "its attempt to connect to {target} took too long",
    7: "it does not support the command CONNECT",
    8: "it does not support addresses of this type: {target}",
}
"""What the reply codes of SOCKS5 say."""

WANTS_LOGIN: Final = "it wants a login: give user and password in the URL of the proxy, such as socks5://user:password@host:1080"
REFUSES_LOGIN: Final = "it refuses the user or the password in the URL of the proxy"
CLOSED: Final = "it closed the connection before it was connected to the broker"


class ProxyError(OSError):
    """A proxy did not connect to a broker. is_refusal: whether it wants another login, so that a retry is useless."""

    def __init__(self, text: str, *, is_refusal: bool = False) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a handshake: bytes to send, which may contain a password, and the most bytes to receive next."""

    send: bytes = field(repr=False)
    most: int


Handshake: TypeAlias = Generator[Step, bytes, None]


def handshake(proxy: Proxy, host: str, port: int) -> Handshake:
    """Return the handshake that has a proxy connect to a host. host: a name or an IP address."""
    return _socks5(proxy, host, port) if proxy.is_socks else _http_connect(proxy, host, port)


def _socks5(proxy: Proxy, host: str, port: int) -> Handshake:
    address = _socks_address(host, port)
    methods = bytes([_NO_LOGIN, _BY_PASSWORD] if proxy.user else [_NO_LOGIN])
    version, method = yield from _exactly(bytes([_VERSION, len(methods)]) + methods, 2)
    if version != _VERSION:
        raise _not_understood("SOCKS5", bytes([version, method]))
    if method == _BY_PASSWORD and proxy.user:
        _, refused = yield from _exactly(_socks_login(proxy), 2)
        if refused:
            raise ProxyError(REFUSES_LOGIN, is_refusal=True)
    elif method == _NONE_ACCEPTED:
        raise ProxyError(
            "it accepts neither user and password nor a connection without them" if proxy.user else WANTS_LOGIN, is_refusal=True
        )
    elif method != _NO_LOGIN:
        raise _not_understood("SOCKS5", bytes([version, method]))
    answer = yield from _exactly(bytes([_VERSION, _CONNECT, _RESERVED]) + address, 4)
    version, reply, _, kind = answer
    if version != _VERSION:
        raise _not_understood("SOCKS5", answer)
    if reply:
        text = _REPLIES.get(reply, "it does not connect to {target}, and gives the unknown reason " + str(reply))
        raise ProxyError(text.format(target=_shown(host, port)))
    yield from _bound_address(answer, kind)


def _bound_address(answer: bytes, kind: int) -> Generator[Step, bytes, None]:
    """Take the address from which the proxy connects. Nothing uses it."""
    size = _ADDRESS_BYTES.get(kind)
    if kind == _NAME:
        size = (yield from _exactly(b"", 1))[0]
    if size is None:
        raise _not_understood("SOCKS5", answer)
    yield from _exactly(b"", size + 2)


def _socks_login(proxy: Proxy) -> bytes:
    fields = [proxy.user.encode(), proxy.password.encode()]
    return bytes([_LOGIN_VERSION]) + b"".join(bytes([len(text)]) + text for text in fields)


def _socks_address(host: str, port: int) -> bytes:
    # Loaded here, because few programs use a proxy.
    from ipaddress import ip_address

    try:
        known = ip_address(host.partition("%")[0])
    except ValueError:
        name = _sendable(host)
        return bytes([_NAME, len(name)]) + name + port.to_bytes(2, "big")
    return bytes([_IPV4 if known.version == 4 else _IPV6]) + known.packed + port.to_bytes(2, "big")


def _http_connect(proxy: Proxy, host: str, port: int) -> Handshake:
    head, send = b"", _connect_request(proxy, host, port)
    while not head.endswith(_END_OF_HEAD):
        head += yield Step(send, _missing_of_head(head))
        send = b""
        if not head.startswith(_HTTP[: len(head)]):
            raise _not_understood("HTTP", head)
        if len(head) > LONGEST_HEAD:
            raise ProxyError(f"its answer to CONNECT is longer than {LONGEST_HEAD} bytes")
    line = head.partition(b"\r\n")[0]
    code, _, _ = line.partition(b" ")[2].partition(b" ")
    if len(code) != 3 or not code.isdigit():
        raise _not_understood("HTTP", head)
    if 200 <= (status := int(code)) < 300:
        return
    if status == _PROXY_LOGIN_WANTED:
        raise ProxyError(f"{REFUSES_LOGIN if proxy.user else WANTS_LOGIN} (HTTP 407)", is_refusal=True)
    answered = escaped(line[len(_HTTP) + 2 : len(_HTTP) + 2 + _LONGEST_SHOWN].decode("latin-1"))
    raise ProxyError(f"it refuses to connect to {_shown(host, port)}: HTTP {answered}")


def _connect_request(proxy: Proxy, host: str, port: int) -> bytes:
    name = _sendable(host)
    target = b"[%b]:%d" % (name, port) if b":" in name else b"%b:%d" % (name, port)
    request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (target, target)
    if proxy.user:
        request += b"Proxy-Authorization: Basic %b\r\n" % base64.b64encode(f"{proxy.user}:{proxy.password}".encode())
    return request + b"\r\n"


def _missing_of_head(head: bytes) -> int:
    """Return the least number of bytes that are missing at the end of the head of an HTTP answer."""
    return next(len(_END_OF_HEAD) - count for count in (3, 2, 1, 0) if head.endswith(_END_OF_HEAD[:count]))


def _exactly(send: bytes, count: int) -> Generator[Step, bytes, bytes]:
    received = yield Step(send, count)
    while len(received) < count:
        received += yield Step(b"", count - len(received))
    return received


def _sendable(host: str) -> bytes:
    """Return a host name as bytes for a proxy. Raises ProxyError if it is not a host name.

    Brokers advertise names, and a name with a line end could add headers to the request.
    """
    try:
        name = host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        name = b""
    if not _SENDABLE_HOST.fullmatch(name):
        raise ProxyError(f"{host[:_LONGEST_SHOWN]!r} is no host name that a proxy can be given")
    return name


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _not_understood(protocol: str, received: bytes) -> ProxyError:
    hints = {b"HT": "; does it want http:// instead?", b"\x05\x00": "; does it want socks5:// instead?", b"\x15\x03": "; it speaks TLS"}
    hint = hints.get(received[:2], "")
    return ProxyError(f"it answers with bytes that are not {protocol} (first bytes {received[:16].hex(' ')}){hint}")

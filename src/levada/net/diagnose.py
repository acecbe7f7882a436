"""Finds the probable cause of a connection's end, for error messages.

It knows only how the connection ended, what the client was doing, and the first bytes that the other side sent. Some servers of
other protocols are recognized by their first bytes; those that wait for a handshake of their own close the connection or stay silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from levada.net.selectable import Ending


class Doing(Enum):
    """The step of a connection during which it ended."""

    CONNECTING = "connecting"
    NEGOTIATING = "waiting for the answer to ApiVersions"
    AUTHENTICATING = "authenticating"
    ASKING_FIRST = "waiting for the answer to its first request"
    WORKING = "working"


_HTTP = "answered with HTTP: this is a web server, not a Kafka listener; check the port in bootstrap.servers"
_GREETINGS: Sequence[tuple[bytes, str]] = (
    (b"HTTP", _HTTP),
    (b"<!DO", _HTTP),
    (b"<!do", _HTTP),
    (b"<htm", _HTTP),
    (b"<HTM", _HTTP),
    (b"SSH-", "answered with SSH: this is an SSH server, not a Kafka listener; check the port in bootstrap.servers"),
    (b"220", "answered like a mail or FTP server, not a Kafka listener; check the port in bootstrap.servers"),
    (b"-ERR", "answered like Redis or a POP3 server, not a Kafka listener; check the port in bootstrap.servers"),
    (b"AMQP", "answered with AMQP: this is a RabbitMQ-like broker, not a Kafka listener; check the port in bootstrap.servers"),
)
_TLS_ALERT, _TLS_HANDSHAKE, _TLS_MAJOR = 0x15, 0x16, 0x03


def diagnose(
    ending: Ending, doing: Doing, *, first_bytes: bytes = b"", detail: str = "", security_protocol: str = "PLAINTEXT", proxy: str = ""
) -> str:
    """Return a text with the probable cause of a connection's end, and the remedy. It does not contain the address.

    first_bytes: the first bytes that the peer has sent. detail: the text of the operating system or the decoder, used if no better cause is
    known. proxy: the proxy that the connection passes through; "" for none.
    """
    if proxy:
        is_of_proxy = doing is Doing.CONNECTING and ending in _OF_PROXY
        cause = _OF_PROXY[ending] + _in_brackets(detail) if is_of_proxy else _cause(ending, doing, first_bytes, detail, security_protocol)
        return f"through the proxy {proxy}: {cause}"
    return _cause(ending, doing, first_bytes, detail, security_protocol)


def _cause(ending: Ending, doing: Doing, first_bytes: bytes, detail: str, security_protocol: str) -> str:
    invalid_peer = _invalid_peer(first_bytes, security_protocol)
    if invalid_peer is not None and doing not in (Doing.ASKING_FIRST, Doing.WORKING):
        return invalid_peer
    if ending is Ending.BAD_FRAME or (ending is Ending.UNREADABLE and doing is Doing.NEGOTIATING):
        return f"answered with bytes that are not Kafka's protocol ({_shown(first_bytes, detail)}); check the port in bootstrap.servers"
    if doing is Doing.NEGOTIATING and ending in _BEFORE_ANSWER:
        return f"{_BEFORE_ANSWER[ending]}: {_likely_listener(security_protocol)}"
    if doing is Doing.ASKING_FIRST and ending in (Ending.CLOSED, Ending.RESET) and security_protocol in _WITHOUT_LOGIN:
        return f"{_plain(ending, detail)} at the first request: {_login_missing(security_protocol)}"
    return _plain(ending, detail)


def is_invalid_peer(first_bytes: bytes) -> bool:
    """Return whether the first bytes prove that the other side is not a plaintext listener of a Kafka broker, so that a retry is
    useless.
    """
    return _invalid_peer(first_bytes, "") is not None


_OF_PROXY = {
    Ending.REFUSED: "connection refused: nothing listens there; is the proxy up, and is its port in proxy.url right?",
    Ending.UNREACHABLE: "the proxy cannot be reached",
    Ending.UNRESOLVED: "a host name does not resolve",
    Ending.LOOKUP_TIMED_OUT: "the host name was not looked up in time: the system's name service is slow, or out of reach",
    Ending.CONNECT_TIMED_OUT: "the proxy does not answer the connection attempt: a firewall, a wrong address, or a host that is down",
    Ending.PROXY_TIMED_OUT: "it accepts connections, but did not connect to the broker in time: a firewall behind it, a broker that is "
    "down, or a server that is no such proxy",
}
"""What the end of a connection attempt means if it was made to a proxy."""
_NO_HANDSHAKE = "accepts connections, but the handshake of TLS did not end"
_SILENT_LISTENERS = "a listener without TLS, a proxy whose broker is down, or a broker with too much to do"
_WITHOUT_LOGIN = {"PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SASL_SSL"}
_BEFORE_ANSWER = {
    Ending.CLOSED: "the broker closed the connection before it answered ApiVersions",
    Ending.RESET: "the broker reset the connection before it answered ApiVersions",
    Ending.UNANSWERED: "accepts connections but does not answer ApiVersions",
}


def _invalid_peer(first_bytes: bytes, security_protocol: str) -> str | None:
    if _is_tls(first_bytes):
        return f"answered with TLS: this listener expects security.protocol=SSL or SASL_SSL (yours: {security_protocol})"
    return next((cause for greeting, cause in _GREETINGS if first_bytes.startswith(greeting)), None)


def _is_tls(first_bytes: bytes) -> bool:
    return len(first_bytes) >= 2 and first_bytes[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and first_bytes[1] == _TLS_MAJOR


def _likely_listener(security_protocol: str) -> str:
    return (
        f"a listener that expects TLS or SASL (yours: security.protocol={security_protocol}), a broker older than 0.10 "
        "(then name its release, as broker.version.fallback=0.9.0), or no Kafka broker at all; check security.protocol and the port"
    )


def _login_missing(security_protocol: str) -> str:
    return f"does this listener want a login ({_WITHOUT_LOGIN[security_protocol]})? yours: security.protocol={security_protocol}"


def _plain(ending: Ending, detail: str) -> str:
    if ending is Ending.REFUSED:
        return f"connection refused: nothing listens there; is the broker up, and is the port right?{_in_brackets(detail)}"
    if ending is Ending.UNRESOLVED:
        return f"the host name does not resolve{_in_brackets(detail)}"
    if ending is Ending.LOOKUP_TIMED_OUT:
        return f"{ending.value}{_in_brackets(detail)}: the system's name service is slow, or out of reach"
    if ending is Ending.CONNECT_TIMED_OUT:
        return f"no answer to the connection attempt{_in_brackets(detail)}: a firewall, a wrong address, or a host that is down"
    if ending is Ending.HANDSHAKE_TIMED_OUT:
        return f"{_NO_HANDSHAKE}{_in_brackets(detail)}: {_SILENT_LISTENERS}; check security.protocol and the port"
    if detail and ending in (Ending.UNANSWERED, Ending.TLS_FAILED, Ending.TLS_REFUSED, Ending.PROXY_FAILED, Ending.PROXY_REFUSED):
        return detail
    return f"{ending.value}{_in_brackets(detail)}"


def _in_brackets(detail: str) -> str:
    return f" ({detail})" if detail else ""


def _shown(first_bytes: bytes, detail: str) -> str:
    return detail or f"first bytes {first_bytes[:16].hex(' ')}"

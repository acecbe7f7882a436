"""Reads the URL of a proxy. No error quotes it, because it may contain a password."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from levada.base.proxy import Proxy
from levada.config.option import Option

_FORMS: Final = "socks5://, socks5h:// or http://, then host:port, or user:password@host:port"
_SOCKS_PORT: Final = 1080
_LONGEST_SOCKS_FIELD: Final = 255
_ADVICE: Final = {
    "https": "TLS to the proxy itself is not supported; http:// is for all proxies with CONNECT, also if brokers have TLS",
    "socks": "name the version: socks5:// or socks5h://",
    "socks4": "only version 5 of SOCKS is supported",
    "socks4a": "only version 5 of SOCKS is supported",
}


def proxy(doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare the URL of a proxy. doc: the description of the option. aliases: names of the same setting in other clients."""
    return Option("URL", _read, None, doc, "socks5://, socks5h://, http://", "str | None", aliases=aliases, secret=True)


def _read(value: Any) -> Proxy | None:
    if value is None or isinstance(value, Proxy):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected {_FORMS}, got {type(value).__name__}")
    parts = _split(value.strip())
    if parts.scheme not in ("socks5", "socks5h", "http"):
        raise ValueError(_ADVICE.get(parts.scheme, f"expected {_FORMS}"))
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"expected {_FORMS}, and nothing behind; write /, ? and # in a password as %2F, %3F and %23")
    port = parts.port or (_SOCKS_PORT if parts.scheme != "http" else 0)
    if not port:
        raise ValueError("a proxy with http:// needs a port, such as http://host:3128")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    _check_login(parts, user, password)
    return Proxy(parts.scheme, parts.hostname, port, user, password)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - a bad port is noticed when it is read
    except ValueError:
        raise ValueError(f"is no URL: expected {_FORMS}; write special characters of a password as in %2F for /") from None
    return parts


def _check_login(parts: SplitResult, user: str, password: str) -> None:
    if not user and parts.username is not None:
        raise ValueError("has a password without a user")
    if parts.scheme == "http" and ":" in user:
        raise ValueError("a user with a colon cannot log in to a proxy with http://")
    if parts.scheme != "http" and max(len(user.encode()), len(password.encode())) > _LONGEST_SOCKS_FIELD:
        raise ValueError(f"user and password may have up to {_LONGEST_SOCKS_FIELD} bytes each for SOCKS5")

"""Reads the addresses of brokers: host:port, or a host alone where there is a default port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

BROKER_PORT: Final = 9092
"""The usual port of Kafka's brokers."""
_NAME = re.compile(r"[\w.-]+")


def read_addresses(value: Any, default_port: int | None) -> tuple[tuple[str, int], ...]:
    """Return the (host, port) pairs of a text with commas, or of a sequence of texts and pairs. Raises ValueError with the reason.

    default_port: the port of an address that names none; None refuses such an address.
    """
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence):
        raise ValueError(f"expected 'host:port,host:port' or a list of such, got {value!r}")
    found = tuple(_read(item.strip() if isinstance(item, str) else item, default_port) for item in items if item != "")
    if not found:
        raise ValueError("names no broker; give at least one host:port")
    return found


def is_ipv6(text: str) -> bool:
    """Whether a text is an IPv6 address, without brackets."""
    if text.count(":") < 2:
        return False
    # This module takes a while to load, and most programs name no IPv6 address.
    from ipaddress import IPv6Address

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _read(item: Any, default_port: int | None) -> tuple[str, int]:
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        host, port = item
    elif isinstance(item, str):
        if "://" in item:
            raise ValueError(f"{item!r} is a URL; give host:port, and the protocol as security.protocol")
        if "@" in item:
            # The address is not quoted, because what stands before the @ is probably a password.
            raise ValueError("an address contains @; give host:port, and user and password as sasl.username and sasl.password")
        host, port = _split(item, default_port)
    else:
        advice = "; host and port are one text, such as 'localhost:9092'" if isinstance(item, int) else ""
        raise ValueError(f"expected host:port, got {item!r}{advice}")
    if any(character.isspace() for character in host):
        raise ValueError(f"{item!r} has white space in an address; separate addresses by commas")
    if not host or not str(port).isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"expected host:port with a port from 1 to 65535, got {item!r}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not _NAME.fullmatch(bare) and not is_ipv6(bare):
        raise ValueError(f"{host!r} is no host name and no IP address; expected host:port")
    return bare, int(port)


def _split(item: str, default_port: int | None) -> tuple[str, str]:
    """Return host and port of an address, which are not checked yet."""
    host, colon, port = item.rpartition(":")
    has_port = bool(colon) and not item.endswith("]") and not is_ipv6(item)
    if has_port or (default_port is None and not is_ipv6(item)):
        return host, port
    if is_ipv6(host) and port.isdecimal():
        raise ValueError(f"{item!r} is an IPv6 address with a port, or one without; write [{host}]:{port} or [{item}]")
    if default_port is None:
        return item, ""
    if item.isdecimal():
        raise ValueError(f"{item!r} is a port without a host; expected host:port")
    return item, str(default_port)

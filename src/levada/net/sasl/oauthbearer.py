"""OAUTHBEARER (RFC 7628, KIP-255): the client sends a token of an OAuth server. Anyone who reads the token can use it, so use TLS.

client  n,, ^A auth=Bearer TOKEN ^A name=value ^A ^A      server  (nothing), or {"status":"invalid_token"}
                                                          client  ^A after a refusal, which the server answers with its error
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from levada.credentials import Messages, SaslError

_SEPARATOR: Final = "\x01"
_GS2_HEADER: Final = re.compile(r"n,(?:a=([^,]*))?,\Z")
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*\Z")
_EXTENSION: Final = re.compile(r"[A-Za-z]+\Z")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+\Z")
_BEARER: Final = re.compile(r"bearer +", re.IGNORECASE)
_LONGEST_STATUS: Final = 200


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """A client's first message. acting_as: the user that the client wants to act as; "" for the user of the token."""

    token: str = field(repr=False)
    extensions: Mapping[str, str]
    acting_as: str


def fault_of(token: str, extensions: Mapping[str, str]) -> str:
    """Return why a token or its extensions cannot be sent; "" if they can.

    The text quotes neither the token nor a value of an extension.
    """
    if not _TOKEN.match(token):
        return "a token has letters, digits and - _ . ~ + / only, and is not empty"
    for name, value in extensions.items():
        if not _EXTENSION.match(name) or name == "auth":
            return f"{name!r} cannot be an extension: its name has letters only, and is not auth"
        if not _VALUE.match(value):
            return f"the value of the extension {name!r} is empty, or not ASCII text"
    return ""


def client(token: str, extensions: Mapping[str, str]) -> Messages:
    """Run the client's side of OAUTHBEARER: send the token. The broker does not authenticate itself.

    Raises SaslError if the token or an extension cannot be sent, or if the broker refuses the token.
    """
    if fault := fault_of(token, extensions):
        raise SaslError(fault)
    said = [f"n,,{_SEPARATOR}auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items()), "", ""]
    answer = bytes((yield _SEPARATOR.join(said).encode()))
    if answer:
        # The broker sends its error after the client has confirmed the refusal.
        yield _SEPARATOR.encode()
        raise SaslError(f"the broker does not accept the token: {_status(answer)}")


def parsed(message: bytes) -> FirstMessage:
    """Decode a client's first message. Raises SaslError, whose text quotes no part of the message."""
    try:
        header, *pairs, last, end = message.decode().split(_SEPARATOR)
    except ValueError as error:
        raise SaslError("a message of OAUTHBEARER is text in UTF-8, its parts separated by the byte 1") from error
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in found:
            raise SaslError("a message of OAUTHBEARER is made of name=value, each once")
        found[name] = value
    bearer = _BEARER.match(authorization := found.pop("auth", ""))
    greeting = _GS2_HEADER.match(header)
    if last or end or greeting is None or bearer is None:
        raise SaslError("a message of OAUTHBEARER begins with n,, has auth=Bearer and a token, and ends with two bytes 1")
    token = authorization[bearer.end() :]
    if fault := fault_of(token, found):
        raise SaslError(fault)
    return FirstMessage(token, found, greeting[1] or "")


def refusal(status: str = "invalid_token") -> bytes:
    """Return the answer of a broker that does not accept a token."""
    return json.dumps({"status": status}, separators=(",", ":")).encode()


def _status(answer: bytes) -> str:
    """Return the status in a refusal, as repr(); if the refusal has no status, the repr() of its first 200 bytes."""
    try:
        status = json.loads(answer)["status"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return repr(answer[:_LONGEST_STATUS])
    return repr(status)[:_LONGEST_STATUS]

"""Reads the claims of a JSON web token (RFC 7519) without checking its signature, and makes unsecured tokens."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any


class JwtError(ValueError):
    """The text is not a valid JSON web token. The error message quotes no part of it."""


def parts(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Return the header, the claims and the signature (as base64 text) of a token. Raises JwtError."""
    pieces = token.split(".")
    if len(pieces) != 3:
        raise JwtError("a JSON web token has three parts, separated by dots")
    return _object(pieces[0]), _object(pieces[1]), pieces[2]


def claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a token. Raises JwtError."""
    return parts(token)[1]


def expiry_s(token: str) -> float | None:
    """Return when a token expires, in seconds since the epoch; None if it has no claim `exp` or is not a JSON web token.

    Raises JwtError for a JSON web token whose claim `exp` is not a number below 1e15.
    """
    try:
        claimed = claims(token)
    except JwtError:
        return None
    return number(claimed, "exp")


def number(claimed: Mapping[str, Any], name: str) -> float | None:
    """Return a claim as a number; None if the claim is missing. Raises JwtError if it is not a number, or is 1e15 or more."""
    value = claimed.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise JwtError(f"the claim {name!r} is no number of seconds")
    return float(value)


def unsecured(claimed: Mapping[str, Any]) -> str:
    """Return a token without signature for these claims, for brokers that are configured to accept such tokens."""
    return f"{_encoded({'alg': 'none'})}.{_encoded(claimed)}."


def _object(piece: str) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.b64decode(piece.encode() + b"=" * (-len(piece) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise JwtError("a part of the JSON web token is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise JwtError("a part of the JSON web token is no object")
    return found


def _encoded(document: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).rstrip(b"=").decode()

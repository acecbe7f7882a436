"""Whom a token of OAUTHBEARER is about, and until when: a port, and the one validator that needs no keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from levada.credentials import SaslError
from levada.net.sasl import jwt


class ValidToken(NamedTuple):
    """A token that was found good. ends_ms: until when, in ms since the epoch."""

    user: str
    ends_ms: int


ValidateToken: TypeAlias = Callable[[str, int], ValidToken]
"""Given a token and the time in ms since the epoch. Raises SaslError for one that is not to be believed."""


def validate_unsecured(token: str, wall_ms: int) -> ValidToken:
    """Believe a token without a signature, as Kafka's validator for development does: it has a subject, and has not ended."""
    try:
        header, claimed, signature = jwt.parts(token)
        ends_s, begins_s = jwt.number(claimed, "exp"), jwt.number(claimed, "iat")
    except jwt.JwtError as error:
        raise SaslError(str(error)) from None
    user = claimed.get("sub")
    if header.get("alg") != "none" or signature:
        raise SaslError("the token is signed, and unsigned ones are expected")
    if not isinstance(user, str) or not user or ends_s is None:
        raise SaslError("the token lacks a subject or an end")
    if ends_s * 1000 <= wall_ms or (begins_s is not None and begins_s > ends_s):
        raise SaslError("the token has expired")
    return ValidToken(user, int(ends_s * 1000))

"""OAUTHBEARER's messages (RFC 7628), and what a token says of itself."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from levada.credentials import OAuthToken, SaslError
from levada.errors import TokenError
from levada.net.sasl import jwt, oauthbearer
from levada.oauth.token import checked

TOKEN = "eyJ.abc-_.x+/=="


def test_KIP255_the_first_message_is_that_of_the_rfc() -> None:
    assert next(oauthbearer.client(TOKEN, {"traceId": "12"})) == b"n,,\x01auth=Bearer eyJ.abc-_.x+/==\x01traceId=12\x01\x01"


def test_a_broker_reads_what_a_client_says() -> None:
    first = oauthbearer.parsed(next(oauthbearer.client(TOKEN, {"a": "b c"})))
    assert (first.token, first.extensions, first.acting_as) == (TOKEN, {"a": "b c"}, "")
    assert oauthbearer.parsed(b"n,a=alice,\x01auth=bearer t\x01\x01").acting_as == "alice"


def test_a_broker_that_says_nothing_accepts() -> None:
    exchange = oauthbearer.client(TOKEN, {})
    next(exchange)
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize("refusal", [b"[" * 100_000, b"\xff", b"5", b"{}"], ids=lambda refusal: repr(refusal[:9]))
def test_a_refusal_that_is_not_understood_is_told_in_part(refusal: bytes) -> None:
    exchange = oauthbearer.client(TOKEN, {})
    next(exchange)
    exchange.send(refusal)
    with pytest.raises(SaslError, match=re.escape(f"does not accept the token: {refusal[:200]!r}")):
        exchange.send(b"")


def test_a_refusal_is_confirmed_and_told() -> None:
    exchange = oauthbearer.client(TOKEN, {})
    next(exchange)
    assert exchange.send(oauthbearer.refusal()) == b"\x01"
    with pytest.raises(SaslError, match="does not accept the token: 'invalid_token'"):
        exchange.send(b"")


@pytest.mark.parametrize(
    "message",
    [
        *(
            b"",
            b"\xff",
            b"n,,",
            b"n,,\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01auth=Basic dDp0\x01\x01",
            b"y,,\x01auth=Bearer t\x01\x01",
        ),
        *(
            b"n,,\x01auth=Bearer t\x01",
            b"n,,\x01auth=Bearer t\x01\x01\x01",
            b"n,,\x01auth=Bearer a b\x01\x01",
            b"n,,\x01auth=Bearer t\x01x\x01\x01",
        ),
        *(b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", b"n,,\x01auth=Bearer t\x01a1=x\x01\x01", b"n,,\x01auth=Bearer t\x01a=\x01\x01"),
    ],
)
def test_M_D6_what_is_no_message_is_refused_and_not_quoted(message: bytes) -> None:
    with pytest.raises(SaslError) as error:
        oauthbearer.parsed(message)
    assert "Bearer t" not in str(error.value)


@pytest.mark.parametrize(
    ("token", "extensions", "why"),
    [
        ("", {}, "is not empty"),
        ("a b", {}, "letters, digits"),
        ("a\x01b", {}, "letters, digits"),
        ("t\n", {}, "letters, digits"),
        ("t", {"auth": "x"}, "'auth' cannot be an extension"),
        ("t", {"a1": "x"}, "'a1' cannot be an extension"),
        ("t", {"a": ""}, "'a' is empty"),
        ("t", {"a": "x\x01b=c"}, "'a' is empty, or not ASCII"),
    ],
)
def test_a_token_or_extension_cannot_smuggle_in_another(token: str, extensions: dict[str, str], why: str) -> None:
    with pytest.raises(SaslError, match=why):
        next(oauthbearer.client(token, extensions))


def test_what_a_token_says_of_its_end() -> None:
    assert jwt.expiry_s(jwt.unsecured({"sub": "a", "exp": 12.5})) == 12.5
    assert jwt.expiry_s(jwt.unsecured({"sub": "a"})) is None
    assert jwt.expiry_s("opaque") is None


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "e30.W10.", "e30.e30", "....", "e30.!!.", jwt.unsecured({})[:-2] + "x."])
def test_what_is_no_json_web_token(token: str) -> None:
    with pytest.raises(jwt.JwtError):
        jwt.claims(token)


@pytest.mark.parametrize("end", ["soon", True, 1e300, [1]])
def test_an_end_that_is_no_time(end: object) -> None:
    with pytest.raises(jwt.JwtError, match="'exp' is no number"):
        jwt.expiry_s(jwt.unsecured({"exp": end}))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"value": 5}, "it is not text"),
        *(({"expires_at": given}, "expires_at is not a number") for given in (math.inf, math.nan, -1e300, 10**400, "1", True)),
        *(({"extensions": given}, "extensions are not a mapping") for given in (None, 5, {"a": 5}, {5: "a"}, ["a"])),
    ],
)
def test_a_token_with_fields_of_other_types_says_which(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(TokenError, match=f"cannot be sent: .*{fault}"):
        checked(OAuthToken(**{"value": "hidden", **fields}), 1_000.0)

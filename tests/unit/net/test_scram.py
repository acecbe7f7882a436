"""SCRAM and PLAIN, both sides: RFC 7677's example, any user and password, and what each side refuses."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.credentials import Exchange, SaslError
from levada.net.sasl import plain, scram
from levada.net.sasl.scram import ScramCredential, ScramServer

MECHANISM = "SCRAM-SHA-256"
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


def begun() -> Exchange:
    """The client of RFC 7677, after its first message."""
    exchange = scram.client(MECHANISM, "user", "pencil", nonce=NONCE)
    next(exchange)
    return exchange


def finish(exchange: Exchange, message: bytes) -> None:
    with pytest.raises(StopIteration):
        exchange.send(message)


def test_M_D7_the_example_of_rfc_7677() -> None:
    exchange = scram.client(MECHANISM, "user", "pencil", nonce=NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.send(FIRST) == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," + proof
    finish(exchange, LAST)


def log_in(mechanism: str, user: str, password: str, known: dict[str, ScramCredential]) -> ScramServer:
    server = ScramServer(mechanism, lambda user, _: known.get(user))
    exchange = scram.client(mechanism, user, password)
    finish_with = server.last(exchange.send(server.first(next(exchange))))
    finish(exchange, finish_with)
    return server


@given(user=NAMES, password=NAMES, mechanism=st.sampled_from(sorted(scram.HASHES)))
def test_M_D6_both_sides_agree_on_any_user_and_password(user: str, password: str, mechanism: str) -> None:
    server = log_in(mechanism, user, password, {user: ScramCredential.of(mechanism, password)})
    assert server.user == user


@given(password=NAMES, other=NAMES)
def test_M_D6_another_password_is_refused(password: str, other: str) -> None:
    if password == other:
        return
    with pytest.raises(SaslError, match="wrong password"):
        log_in(MECHANISM, "u", other, {"u": ScramCredential.of(MECHANISM, password)})


def test_M_D6_a_user_that_there_is_not() -> None:
    with pytest.raises(SaslError, match="unknown user"):
        log_in(MECHANISM, "u", "p", {})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (FIRST.replace(b"r=rOpr", b"r=xxxx"), "does not begin with the client's"),
        (FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "or adds nothing to it"),
        (FIRST.replace(b"i=4096", b"i=4095"), "asks for '4095' iterations"),
        (FIRST.replace(b"i=4096", b"i=1048577"), "asks for '1048577' iterations"),
        (FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "iterations; from 4096 to 1048576"),
        (FIRST.replace(b"i=4096", b"i=-1"), "iterations"),
        (FIRST.replace(b"i=4096", "i=\N{SUPERSCRIPT TWO}".encode()), "iterations"),
        (FIRST.replace(b",i=4096", b""), "iterations"),
        (FIRST.replace(b"s=W22", b"s=!!!"), "not base64"),
        (FIRST + b",i=4096", "each once"),
        (b"m=channel-limits," + FIRST, "the mandatory extension 'channel-limits', which is not known"),
        (FIRST + b",m=channel-limits", "the mandatory extension 'channel-limits', which is not known"),
        (b"", "name=value"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_M_D7_a_first_answer_that_cannot_be_right(answer: bytes, text: str) -> None:
    with pytest.raises(SaslError, match=text):
        begun().send(answer)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "its signature is wrong"),
        (b"v=", "its signature is wrong"),
        (b"x=", "its signature is wrong"),
        (b"e=invalid-proof", "the broker refuses: invalid-proof"),
        (LAST + b"=", "its signature is wrong|not base64"),
    ],
)
def test_M_D7_a_broker_that_does_not_know_the_password_is_not_believed(answer: bytes, text: str) -> None:
    exchange = begun()
    exchange.send(FIRST)
    with pytest.raises(SaslError, match=text):
        exchange.send(answer)


@given(position=st.integers(0, 200), replacement=st.integers(0, 255))
def test_M_D7_a_changed_proof_is_refused(position: int, replacement: int) -> None:
    server = ScramServer(MECHANISM, lambda user, _: {"user": CREDENTIAL}.get(user))
    exchange = scram.client(MECHANISM, "user", "pencil")
    message = bytearray(exchange.send(server.first(next(exchange))))
    at = position % len(message)
    if message[at] == replacement:
        return
    message[at] = replacement
    try:
        server.last(bytes(message))
    except SaslError:
        return
    # Of the last character before the padding, base64 leaves bits unused: other text may mean the same proof.
    assert at == len(message) - 2


CREDENTIAL = ScramCredential.of(MECHANISM, "pencil")


@pytest.mark.parametrize(
    "message",
    [b"y,,n=user,r=abc", b"p=tls-unique,,n=user,r=abc", b"n,a=other,n=user,r=abc", b"n,,n=user", b"n,,", b"n,,m=x,n=user,r=abc", b"\xff"],
)
def test_a_first_message_that_a_broker_refuses(message: bytes) -> None:
    with pytest.raises(SaslError):
        ScramServer(MECHANISM, lambda user, _: {"user": CREDENTIAL}.get(user)).first(message)


def test_M_D11_a_credential_is_not_shown() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096)"


@given(user=NAMES, password=NAMES)
def test_M_D6_plain_says_user_and_password(user: str, password: str) -> None:
    assert plain.parsed(next(plain.client(user, password))) == (user, password)


@pytest.mark.parametrize("message", [b"", b"\0a", b"\0a\0", b"\0\0b", b"other\0a\0b", b"\0a\0b\0c", b"\xff\0a\0b"])
def test_a_message_of_plain_that_a_broker_refuses(message: bytes) -> None:
    with pytest.raises(SaslError):
        plain.parsed(message)

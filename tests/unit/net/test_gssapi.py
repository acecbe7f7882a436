"""GSSAPI's messages, with contexts that need no Kerberos."""

from __future__ import annotations

from typing import Any

import pytest

from levada.credentials import BlockingStep, SaslError
from levada.net.sasl import gssapi
from levada.net.sasl.gssapi import GssapiServer

OFFER = b"wrapped:\x01\0\0\0"


class Context:
    """A side that is proven after so many of the other side's tokens."""

    def __init__(self, tokens: list[bytes], *, client: str = "alice@HERE", broker: str = "kafka/b1@HERE") -> None:
        self.client = client
        self.broker = broker
        self._tokens = tokens

    @property
    def is_complete(self) -> bool:
        return not self._tokens

    def step(self, token: bytes | None) -> bytes:
        return self._tokens.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped:" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped:"):
            raise SaslError("of nobody")
        return message.removeprefix(b"wrapped:")


def begun(*tokens: bytes) -> Any:
    """Return a client's exchange, resumed with the outcome of its blocking first step."""
    exchange = gssapi.client(lambda: Context(list(tokens)))
    step = next(exchange)
    assert isinstance(step, BlockingStep)
    return exchange, exchange.send(step.run())


def test_H15_a_client_says_its_tokens_and_agrees_on_no_protection() -> None:
    exchange, said = begun(b"ticket", b"")
    assert said == b"ticket"
    assert exchange.send(b"proof of the broker") == b""
    assert exchange.send(b"wrapped:\x07\x00\xff\xff") == OFFER
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize("offer", [b"wrapped:\x06\0\0\0", b"wrapped:\x01", b"wrapped:", b"\x01\0\0\0"])
def test_H15_a_client_takes_no_other_offer(offer: bytes) -> None:
    exchange, _ = begun(b"ticket", b"")
    exchange.send(b"proof of the broker")
    with pytest.raises(SaslError):
        exchange.send(offer)


@pytest.mark.parametrize(("tokens", "messages"), [([b"proof"], [b"ticket", b""]), ([b""], [b"ticket"]), ([b"1", b"2"], [b"a", b"b", b""])])
def test_H15_a_broker_offers_no_protection_once_both_sides_are_proven(tokens: list[bytes], messages: list[bytes]) -> None:
    server = GssapiServer(Context(list(tokens)))
    answers = [server.take(message) for message in messages]
    assert answers == [*filter(None, tokens), OFFER]
    assert server.user == ""
    assert (server.take(b"wrapped:\x01\0\0\0kafka@b1"), server.user) == (b"", "alice")


@pytest.mark.parametrize("message", [b"wrapped:\x02\0\0\0", b"wrapped:\x03\0\0\0", b"wrapped:\x01\0", b"\x01\0\0\0", b""])
def test_H15_a_broker_believes_no_other_end(message: bytes) -> None:
    server = GssapiServer(Context([b""]))
    server.take(b"ticket")
    with pytest.raises(SaslError):
        server.take(message)
    assert server.user == ""


@pytest.mark.parametrize(
    ("client", "user"),
    [
        ("etl/node7@HERE", "etl"),
        ("alice@ELSEWHERE", None),
        ("alice", None),
        ("alice/node7/more@HERE", None),
        ("alice@mail@HERE", None),
        ("@HERE", None),
        ("/node7@HERE", None),
    ],
)
def test_H15_a_user_is_the_first_part_of_a_principal_of_the_same_realm(client: str, user: str | None) -> None:
    server = GssapiServer(Context([b""], client=client))
    server.take(b"ticket")
    if user is None:
        with pytest.raises(SaslError, match="no rule says who"):
            server.take(OFFER)
    else:
        server.take(OFFER)
        assert server.user == user

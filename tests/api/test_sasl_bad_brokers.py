"""Brokers whose side of a login is broken or hostile: the client ends with an error, in time, and believes nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import levada as lv
from invalid_peers import serving
from levada.errors import AuthenticationError, KafkaError
from levada.net.sasl.scram import ScramCredential, ScramServer
from levada.protocol.frame import FrameReader, decode_request, encode_response
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from levada.protocol.messages.sasl_handshake import SaslHandshakeResponse

MECHANISM = "SCRAM-SHA-256"
LOGIN: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": MECHANISM, "sasl_username": "u", "sasl_password": "p"}
CALL_S = 0.6
VERSIONS = [
    ApiVersion(api_key=3, min_version=0, max_version=12),
    *(ApiVersion(api_key=key, min_version=1, max_version=1) for key in (17, 36)),
]

Say = Callable[[bytes, int], bytes]
"""Makes the whole frame of an answer out of the client's message and the correlation id."""


@contextmanager
def logging_in(say: Say, *, times: int = 1) -> Iterator[str]:
    """A broker whose SaslAuthenticate is answered like that, each answer so many times."""

    def answer(connection: socket.socket) -> None:
        frames = FrameReader()
        while count := connection.recv_into(frames.get_buffer()):
            for frame in frames.received(count):
                asked = decode_request(frame)
                if isinstance(asked.request, SaslAuthenticateRequest):
                    connection.sendall(say(asked.request.auth_bytes, asked.correlation_id) * times)
                elif asked.api_key == 18:
                    versions = [*VERSIONS, ApiVersion(api_key=18, min_version=0, max_version=4)]
                    connection.sendall(encode_response(ApiVersionsResponse(api_keys=versions), asked.version, asked.correlation_id))
                else:
                    connection.sendall(encode_response(SaslHandshakeResponse(mechanisms=[MECHANISM]), asked.version, asked.correlation_id))

    with serving(answer) as address:
        yield address


def saying(message: bytes) -> Say:
    return lambda _, correlation_id: encode_response(SaslAuthenticateResponse(auth_bytes=message), 1, correlation_id)


def scram(*, iterations: str = "4096", grow: int = 0) -> Say:
    """Answer the first message as a broker does, but for these."""

    def say(message: bytes, correlation_id: int) -> bytes:
        if not message.startswith(b"n,,"):
            return saying(b"v=wrong")(message, correlation_id)
        server = ScramServer(MECHANISM, lambda user, extensions: ScramCredential.of(MECHANISM, "p"))
        first = server.first(message).replace(b"i=4096", f"i={iterations}".encode()) + b",x=" + b"a" * grow
        return encode_response(SaslAuthenticateResponse(auth_bytes=first), 1, correlation_id)

    return say


def failure(address: str) -> KafkaError:
    """Return what the caller of a client is told, which comes in time and is short enough to be read."""
    began = time.monotonic()
    with pytest.raises(KafkaError) as told, lv.KafkaAdmin(bootstrap_servers=address, request_timeout_ms=300, **LOGIN) as admin:
        admin.list_topics(timeout=CALL_S)
    assert time.monotonic() - began < CALL_S + 3
    assert address in str(told.value)
    assert len(str(told.value)) < 2_000
    return told.value


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (scram(iterations=str(2**31)), "asks for '2147483648' iterations"),
        (scram(grow=4 << 20), "its signature is wrong|not base64"),
        (saying(b"\0" * (4 << 20)), "name=value"),
        (saying(b"e=" + b"no " * (1 << 20)), "does not begin with the client's|iterations"),
        (saying(b""), "name=value"),
    ],
)
def test_M_D7_what_a_broker_must_not_say_ends_the_call_at_once(say: Say, text: str) -> None:
    with logging_in(say) as address:
        error = failure(address)
    assert isinstance(error, AuthenticationError)
    assert any(part in str(error) for part in text.split("|")), str(error)


def test_M_D7_a_refusal_of_any_length_is_told_in_short() -> None:
    def say(message: bytes, correlation_id: int) -> bytes:
        return (scram() if message.startswith(b"n,,") else saying(b"e=" + b"no " * (1 << 20)))(message, correlation_id)

    with logging_in(say) as address:
        assert "the broker refuses: no no" in str(failure(address))


def test_H15_a_broker_that_never_answers_a_login_is_given_up() -> None:
    with logging_in(lambda _, correlation_id: b"") as address:
        assert "SaslAuthenticate" in str(failure(address))


def test_H15_an_answer_that_is_none_is_an_error() -> None:
    with logging_in(lambda _, correlation_id: b"\x00\x00\x00\x0c" + correlation_id.to_bytes(4, "big") + b"\xff" * 8) as address:
        assert "SaslAuthenticate" in str(failure(address))


def test_H15_an_answer_that_comes_twice_is_an_error() -> None:
    with logging_in(scram(), times=2) as address:
        assert isinstance(failure(address), AuthenticationError)

"""A token is asked for over HTTP: answers that break off, and a process that is about to end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from levada.base.clock import SystemClock
from levada.credentials import OAuthToken
from levada.errors import TokenError
from levada.net.sasl import jwt
from levada.oauth import allow_token_endpoints
from levada.oauth.endpoint import TokenRequest, fetch
from levada.oauth.token import checked

Answering = Callable[[bytes], OAuthToken]


@pytest.fixture
def answered() -> Iterator[Answering]:
    """Ask an endpoint that answers with these bytes and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
    allow_token_endpoints([url])

    def ask(answer: bytes) -> OAuthToken:
        def serve() -> None:
            with listener.accept()[0] as asked:
                asked.recv(1 << 16)
                asked.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        try:
            return fetch(TokenRequest(url, dict), {}, SystemClock())
        finally:
            server.join()

    yield ask
    listener.close()
    allow_token_endpoints(None)


def with_length(body: bytes, *, cut: int = 0) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[: len(body) - cut]


@pytest.mark.parametrize(
    "answer",
    [
        with_length(b'{"access_token":"a"}   ', cut=3),
        with_length(b'{"access_token":"a"}', cut=20),
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n{"access_token":"a"}\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"access_token":"a"}',
    ],
)
def test_an_answer_that_breaks_off_is_no_answer(answered: Answering, answer: bytes) -> None:
    with pytest.raises(TokenError, match="the answer was cut off") as error:
        answered(answer)
    assert error.value.retriable


def test_an_answer_that_ends_with_its_connection_is_whole(answered: Answering) -> None:
    assert answered(b'HTTP/1.1 200 OK\r\n\r\n{"access_token":"a"}').value == "a"


def test_a_token_is_fetched_while_no_thread_can_be_started(answered: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr("levada.oauth.endpoint.Timer", type("Late", (threading.Timer,), {"start": refuse}))
    assert answered(with_length(b'{"access_token":"a"}')).value == "a"


def test_an_end_that_is_no_time_is_told_even_where_the_endpoint_says_another(answered: Answering) -> None:
    token = jwt.unsecured({"sub": "a", "exp": "tomorrow"})
    answer = with_length(b'{"access_token":"%s","expires_in":60}' % token.encode())
    with pytest.raises(TokenError, match="the token cannot be used: the claim 'exp' is no number of seconds"):
        checked(answered(answer), 0)

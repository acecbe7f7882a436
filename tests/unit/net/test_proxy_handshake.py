"""The handshake with a proxy, without a socket: every answer in pieces of every size, refusals, and bytes that are no answer."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from random import Random

import pytest

from levada.base.proxy import Proxy
from levada.net.proxy.handshake import LONGEST_HEAD, ProxyError, handshake

SOCKS = Proxy("socks5h", "proxy", 1080)
SOCKS_LOGIN = Proxy("socks5h", "proxy", 1080, "me", "s3cret")
HTTP = Proxy("http", "proxy", 3128)
HTTP_LOGIN = Proxy("http", "proxy", 3128, "me", "s3cret")
BROKER = ("broker.example", 9092)
ASKED = b"\x05\x01\x00\x03\x0ebroker.example\x23\x84"
CONNECTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
CONNECT = b"CONNECT broker.example:9092 HTTP/1.1\r\nHost: broker.example:9092\r\n"
OK = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"


def run(proxy: Proxy, answer: bytes, pieces: Iterator[int] | None = None, target: tuple[str, int] = BROKER) -> tuple[bytes, bytes]:
    """Run a handshake against a proxy that sends `answer`, in pieces of these sizes. Return what was sent, and what was not taken."""
    running = handshake(proxy, *target)
    step = next(running)
    sent = step.send
    while answer:
        size = min(step.most, next(pieces) if pieces is not None else len(answer))
        piece, answer = answer[:size], answer[size:]
        try:
            step = running.send(piece)
        except StopIteration:
            return sent, answer
        sent += step.send
    pytest.fail(f"the handshake waits for {step.most} bytes")


def fault(proxy: Proxy, answer: bytes, target: tuple[str, int] = BROKER) -> ProxyError:
    with pytest.raises(ProxyError) as raised:
        run(proxy, answer, target=target)
    assert "s3cret" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("proxy", "answer", "sent"),
    [
        (SOCKS, b"\x05\x00" + CONNECTED, b"\x05\x01\x00" + ASKED),
        (SOCKS, b"\x05\x00\x05\x00\x00\x03\x04name\x00\x00", b"\x05\x01\x00" + ASKED),
        (SOCKS, b"\x05\x00\x05\x00\x00\x04" + bytes(18), b"\x05\x01\x00" + ASKED),
        (SOCKS_LOGIN, b"\x05\x00" + CONNECTED, b"\x05\x02\x00\x02" + ASKED),
        (SOCKS_LOGIN, b"\x05\x02\x01\x00" + CONNECTED, b"\x05\x02\x00\x02\x01\x02me\x06s3cret" + ASKED),
        (HTTP, OK, CONNECT + b"\r\n"),
        (HTTP, b"HTTP/1.0 200\r\n\r\n", CONNECT + b"\r\n"),
        (HTTP, b"HTTP/1.1 204 \r\r\n\r\r\n\r\n", CONNECT + b"\r\n"),
        (HTTP_LOGIN, OK, CONNECT + b"Proxy-Authorization: Basic " + base64.b64encode(b"me:s3cret") + b"\r\n\r\n"),
    ],
)
def test_every_answer_is_read_in_pieces_of_any_size_and_nothing_behind_it_is_taken(proxy: Proxy, answer: bytes, sent: bytes) -> None:
    behind = b"\x00\x00\x00\x04of the broker"
    for first in range(1, len(answer) + 1):
        pieces = iter([first, *[len(answer)] * len(answer)])
        assert run(proxy, answer + behind, pieces) == (sent, behind)
    assert run(proxy, answer + behind, iter([1] * len(answer + behind))) == (sent, behind)


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("10.0.0.7", b"\x01\x0a\x00\x00\x07"),
        ("::1", b"\x04" + bytes(15) + b"\x01"),
        ("fe80::1%eth0", b"\x04\xfe\x80" + bytes(13) + b"\x01"),
        ("b_1", b"\x03\x03b_1"),
        ("b\xfccher", b"\x03\x0dxn--bcher-kva"),
    ],
)
def test_a_target_is_sent_as_address_or_name(host: str, asked: bytes) -> None:
    sent, _ = run(SOCKS, b"\x05\x00" + CONNECTED, target=(host, 9092))
    assert sent == b"\x05\x01\x00\x05\x01\x00" + asked + b"\x23\x84"


def test_an_ipv6_address_has_brackets_in_connect() -> None:
    assert run(HTTP, OK, target=("::1", 9092))[0].startswith(b"CONNECT [::1]:9092 HTTP/1.1\r\nHost: [::1]:9092\r\n")


@pytest.mark.parametrize("proxy", [SOCKS, HTTP])
@pytest.mark.parametrize("host", ["a\r\nX: y", "a b", "", "a" * 256, "a/b", "\u2028", "\xfc" * 300, "a\0"])
def test_M_D11_a_host_name_cannot_add_anything_to_the_request(proxy: Proxy, host: str) -> None:
    with pytest.raises(ProxyError, match="no host name that a proxy can be given"):
        next(handshake(proxy, host, 9092))


@pytest.mark.parametrize(
    ("proxy", "answer", "text"),
    [
        (SOCKS, b"\x05\xff", "it wants a login"),
        (SOCKS_LOGIN, b"\x05\xff", "it accepts neither user and password nor a connection without them"),
        (SOCKS_LOGIN, b"\x05\x02\x01\x01", "it refuses the user or the password"),
        (HTTP, b"HTTP/1.1 407 Login\r\n\r\n", "it wants a login"),
        (HTTP_LOGIN, b"HTTP/1.1 407 Login\r\n\r\n", "it refuses the user or the password in the URL of the proxy (HTTP 407)"),
    ],
)
def test_a_refused_login_is_told_from_other_faults(proxy: Proxy, answer: bytes, text: str) -> None:
    error = fault(proxy, answer)
    assert text in str(error)
    assert error.is_refusal


@pytest.mark.parametrize(
    ("proxy", "answer", "text"),
    [
        (SOCKS, b"\x05\x00\x05\x01\x00\x01", "it cannot connect to broker.example:9092, and gives no reason"),
        (SOCKS, b"\x05\x00\x05\x02\x00\x01", "its rules do not allow a connection to broker.example:9092"),
        (SOCKS, b"\x05\x00\x05\x04\x00\x01", "host unreachable"),
        (SOCKS, b"\x05\x00\x05\x05\x00\x01", "broker.example:9092 refused its connection"),
        (SOCKS, b"\x05\x00\x05\x63\x00\x01", "the unknown reason 99"),
        (HTTP, b"HTTP/1.1 403 Forbidden\r\n\r\n", "it refuses to connect to broker.example:9092: HTTP 403 Forbidden"),
        (HTTP, b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "HTTP 502 Bad Gateway"),
        (HTTP, b"HTTP/1.1 500 a\x1b[2Jb\r\n\r\n", "HTTP 500 a\\x1b[2Jb"),
        (HTTP, b"HTTP/1.1 302 " + b"x" * 9000 + b"\r\n\r\n", "HTTP 302 xxx"),
        (SOCKS, b"\x04\x5a", "not SOCKS5 (first bytes 04 5a)"),
        (SOCKS, b"HTTP/1.1 400 Bad Request\r\n\r\n", "does it want http:// instead?"),
        (SOCKS, b"\x05\x01", "not SOCKS5"),
        (SOCKS, b"\x05\x02", "not SOCKS5"),
        (SOCKS, b"\x05\x00\x00\x00\x00\x01", "not SOCKS5"),
        (SOCKS, b"\x05\x00\x05\x00\x00\x07", "not SOCKS5"),
        (SOCKS, b"\x15\x03\x03", "it speaks TLS"),
        (HTTP, b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP (first bytes 53 53 48 2d"),
        (HTTP, b"\x05\x00", "does it want socks5:// instead?"),
        (HTTP, b"\x15\x03\x03", "it speaks TLS"),
        (HTTP, b"HTTP/2 200\r\n\r\n", "not HTTP"),
        (HTTP, b"HTTP/1.1 OK\r\n\r\n", "not HTTP"),
        (HTTP, b"HTTP/1.1 2000\r\n\r\n", "not HTTP"),
        (HTTP, b"HTTP/1.1\r\n\r\n", "not HTTP"),
        (HTTP, b"HTTP/1.1 \xb2\xb2\xb2\r\n\r\n", "not HTTP"),
        (HTTP, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * LONGEST_HEAD, f"longer than {LONGEST_HEAD} bytes"),
    ],
)
def test_what_else_a_proxy_may_answer_is_a_short_error(proxy: Proxy, answer: bytes, text: str) -> None:
    error = fault(proxy, answer)
    assert text in str(error)
    assert not error.is_refusal
    assert len(str(error)) < 300


@pytest.mark.parametrize("proxy", [SOCKS, SOCKS_LOGIN, HTTP, HTTP_LOGIN])
def test_any_bytes_end_in_a_connection_or_a_proxy_error(proxy: Proxy) -> None:
    random = Random(1)
    valid = [b"\x05\x00" + CONNECTED, b"\x05\x02\x01\x00" + CONNECTED, OK, b"HTTP/1.1 407 x\r\n\r\n"]
    for _ in range(3_000):
        answer = bytearray(random.choice(valid))
        for _ in range(random.randrange(4)):
            answer[random.randrange(len(answer))] = random.randrange(256)
        running = handshake(proxy, *BROKER)
        step = next(running)
        given = bytes(answer) + random.randbytes(LONGEST_HEAD + 1_000)
        with contextlib.suppress(ProxyError, StopIteration):
            while given:
                assert 0 < step.most < 300
                piece, given = given[: step.most], given[step.most :]
                step = running.send(piece)
            pytest.fail("more is wanted than a proxy may answer")


@pytest.mark.parametrize("proxy", [SOCKS, SOCKS_LOGIN, HTTP_LOGIN])
def test_M_D11_no_password_is_shown(proxy: Proxy) -> None:
    running = handshake(proxy, *BROKER)
    steps = [next(running)]
    if proxy is SOCKS_LOGIN:
        steps.append(running.send(b"\x05\x02"))
    assert "s3cret" not in f"{proxy} {proxy!r} {steps}"
    assert base64.b64encode(b"me:s3cret").decode() not in f"{steps}"

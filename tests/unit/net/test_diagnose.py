"""From the end of a connection to words that help."""

from __future__ import annotations

import pytest

from levada.net.diagnose import Doing, diagnose, is_invalid_peer
from levada.net.selectable import Ending

TLS_ALERT = bytes.fromhex("15030300020246")


@pytest.mark.parametrize(
    ("first_bytes", "words"),
    [
        (b"HTTP/1.1 400 Bad Request", "HTTP"),
        (b'<!DOCTYPE HTML>\n<html lang="en">', "HTTP"),
        (TLS_ALERT, "expects security.protocol=SSL or SASL_SSL (yours: PLAINTEXT)"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6", "SSH"),
        (b"220 mail.example ESMTP", "mail or FTP"),
        (b"-ERR wrong number of arguments", "Redis"),
        (b"AMQP\x00\x00\x09\x01", "RabbitMQ"),
    ],
)
@pytest.mark.parametrize("ending", [Ending.BAD_FRAME, Ending.CLOSED, Ending.RESET])
def test_M_C10_an_invalid_peer_is_known_by_its_first_bytes(first_bytes: bytes, words: str, ending: Ending) -> None:
    assert words in diagnose(ending, Doing.NEGOTIATING, first_bytes=first_bytes)
    assert is_invalid_peer(first_bytes)


def test_M_C10_unknown_bytes_are_shown() -> None:
    text = diagnose(Ending.BAD_FRAME, Doing.NEGOTIATING, first_bytes=b"\x7f\xff\xff\xff")
    assert "not Kafka's protocol" in text
    assert "7f ff ff ff" in text
    assert not is_invalid_peer(b"\x7f\xff\xff\xff")


@pytest.mark.parametrize("ending", [Ending.CLOSED, Ending.RESET, Ending.UNANSWERED])
def test_M_C10_an_error_before_the_first_answer_points_to_the_listener(ending: Ending) -> None:
    text = diagnose(ending, Doing.NEGOTIATING)
    assert "ApiVersions" in text
    assert "TLS or SASL" in text
    assert "older than 0.10" in text
    assert "security.protocol" in text


def test_M_C10_the_same_bytes_later_mean_nothing_special() -> None:
    assert "TLS" not in diagnose(Ending.CLOSED, Doing.WORKING, first_bytes=TLS_ALERT)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending.REFUSED, "connection refused"),
        (Ending.UNRESOLVED, "does not resolve"),
        (Ending.LOOKUP_TIMED_OUT, "name service"),
        (Ending.CONNECT_TIMED_OUT, "firewall"),
        (Ending.HANDSHAKE_TIMED_OUT, "the handshake of TLS did not end"),
        (Ending.UNREACHABLE, "cannot be reached"),
    ],
)
def test_M_C10_a_connection_that_is_not_made_says_why(ending: Ending, words: str) -> None:
    assert words in diagnose(ending, Doing.CONNECTING, detail="detail")
    assert "detail" in diagnose(ending, Doing.CONNECTING, detail="detail")

"""A thousand handshakes and logins that fail leave nothing behind: no socket, no thread, no memory, on either side."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from hardening_kit import FULL, MIB, note, scaled
from levada.errors import AuthenticationError
from levada.testing import Authority, EmbeddedKafka, TokenIssuer

pytestmark = [
    pytest.mark.hardening,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory and sockets are counted on Linux only"),
]

TIMES = scaled(1_000, 10)
WARM_UP = scaled(200, 5)
LIMIT_MIB = 8
"""One buffer, or one context of TLS, that were kept each time would be 60 MiB and more."""
AT_ONCE: dict[str, Any] = {"reconnect_backoff_ms": 0, "reconnect_backoff_max_ms": 0, "retry_backoff_ms": 0, "retry_backoff_max_ms": 0}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pytest keeps each line that is logged, which would count."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def resident_bytes() -> int:
    """Memory in use; what C's allocator keeps of what was freed, in the arenas of threads that have ended, is given back first."""
    for _ in range(scaled(3, 1)):  # What a collection finalizes is found by the next one.
        gc.collect()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is wanted


def fails(admin: lv.KafkaAdmin) -> None:
    with pytest.raises(AuthenticationError):
        admin.list_topics(timeout=20)


KINDS = ["TLS", "client certificate", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]


@pytest.fixture(params=KINDS if FULL else KINDS[:3:2])
def refused(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """How a client of a broker is refused, and what it needs for that."""
    kind = request.param
    if kind in ("TLS", "client certificate"):
        authority = Authority()
        with EmbeddedKafka(security=authority.listener(client_auth="none" if kind == "TLS" else "required")) as kafka:
            trusted = Authority() if kind == "TLS" else authority
            yield kind, {**kafka.client_settings, **trusted.trust()}
        return
    with EmbeddedKafka(users={"alice": "secret"}, oauth=TokenIssuer().validator()) as kafka:
        if kind == "OAUTHBEARER":
            token = TokenIssuer().issue("alice")
            login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": kind, "sasl_oauth_token_provider": lambda: token}
            yield kind, {**kafka.client_settings, **login}
        else:
            yield kind, {**kafka.settings_for("alice", kind), "sasl_password": "guessed"}


def test_M_D6_failures_leave_nothing_behind(refused: tuple[str, dict[str, Any]]) -> None:
    kind, settings = refused
    with lv.KafkaAdmin(**settings, **AT_ONCE) as admin:
        for _ in range(WARM_UP):
            fails(admin)
        before = resident_bytes(), sockets(), threading.active_count()
        for _ in range(TIMES):
            fails(admin)
        grown = (resident_bytes() - before[0]) / MIB
        left = sockets() - before[1], threading.active_count() - before[2]
    note("M-D6", f"{TIMES} times refused: {kind}", f"{grown:.1f} MiB, {left[0]} sockets, {left[1]} threads", f"{LIMIT_MIB} MiB, 0, 0")
    assert grown <= LIMIT_MIB
    # One connection may be on its way, on both sides.
    assert left[0] <= 2
    assert left[1] <= 0


def test_M_D6_clients_that_are_refused_leave_nothing_behind(refused: tuple[str, dict[str, Any]]) -> None:
    kind, settings = refused

    def refuse() -> None:
        with lv.KafkaAdmin(**settings) as admin:
            fails(admin)

    for _ in range(WARM_UP):
        refuse()
    before = resident_bytes(), sockets(), threading.active_count()
    for _ in range(TIMES):
        refuse()
    grown = (resident_bytes() - before[0]) / MIB
    left = sockets() - before[1], threading.active_count() - before[2]
    note("M-D6", f"{TIMES} clients refused: {kind}", f"{grown:.1f} MiB, {left[0]} sockets, {left[1]} threads", f"{LIMIT_MIB} MiB, 0, 0")
    assert grown <= LIMIT_MIB
    assert left[0] <= 2
    assert left[1] <= 0

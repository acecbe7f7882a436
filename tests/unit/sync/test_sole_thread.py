"""Only one thread at a time uses a consumer, also after a signal handler has raised."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from levada.errors import ConcurrentUseError
from levada.sync import waiter
from levada.sync.waiter import SoleThread
from signal_kit import Strike, struck

MOMENTS = range(12)
"""More than there are in SoleThread."""


def enter(sole: SoleThread) -> int:
    with sole:
        return threading.get_ident()


def test_a_second_thread_is_refused_until_the_first_one_has_left() -> None:
    sole = SoleThread(lambda: None)
    with ThreadPoolExecutor(1) as other:
        with sole, sole, pytest.raises(ConcurrentUseError, match=f"another thread \\({threading.get_ident()}\\)"):
            other.submit(enter, sole).result()
        other.submit(enter, sole).result()


def test_a_signal_handler_that_raises_leaves_it_to_other_threads() -> None:
    struck_at: list[int] = []
    with ThreadPoolExecutor(1) as other:
        for moment in MOMENTS:
            sole = SoleThread(lambda: None)
            try:
                with struck(moment, waiter), sole:
                    pass
            except Strike:
                struck_at.append(moment)
            other.submit(enter, sole).result()
    assert struck_at == list(range(len(struck_at))) != []

"""A promise settles once and tells everybody."""

from __future__ import annotations

import pytest

from levada.base.promise import Promise
from levada.errors import IllegalStateError


def test_a_promise_settles_once() -> None:
    promise: Promise[int] = Promise()
    assert promise.resolve(1)
    assert not promise.resolve(2)
    assert not promise.reject(ValueError())
    assert promise.result() == 1
    assert promise.error is None


def test_callbacks_run_in_order_and_at_once_when_late() -> None:
    promise: Promise[str] = Promise()
    seen: list[str] = []
    promise.on_done(lambda settled: seen.append("first " + settled.result()))
    promise.on_done(lambda _: seen.append("second"))
    promise.resolve("x")
    promise.on_done(lambda _: seen.append("late"))
    assert seen == ["first x", "second", "late"]


def test_a_rejected_promise_raises_its_error() -> None:
    promise: Promise[int] = Promise.rejected(KeyError("k"))
    assert isinstance(promise.error, KeyError)
    with pytest.raises(KeyError):
        promise.result()


def test_a_pending_promise_has_no_result() -> None:
    with pytest.raises(IllegalStateError):
        Promise[int]().result()


def test_a_callback_that_raises_does_not_keep_the_others_from_running() -> None:
    promise: Promise[int] = Promise()
    heard: list[str] = []
    nothing: dict[str, None] = {}
    promise.on_done(lambda _: heard.append("before"))
    promise.on_done(lambda _: 1 / 0)  # type: ignore[arg-type]
    promise.on_done(lambda _: nothing["a later fault"])
    promise.on_done(lambda _: heard.append("after"))
    with pytest.raises(ZeroDivisionError):
        promise.resolve(1)
    assert heard == ["before", "after"]
    assert promise.result() == 1


def test_a_callback_that_was_withdrawn_does_not_run() -> None:
    promise: Promise[int] = Promise()
    heard: list[Promise[int]] = []
    promise.on_done(heard.append)
    promise.forget(heard.append)
    promise.forget(heard.append)
    promise.resolve(1)
    assert heard == []

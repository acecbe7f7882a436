"""Calls of handlers in executors, and exceptions on their way from one process to another."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from levada.api.consumer.workers import CannotRun, Raised, begin_worker, call, call_pickled
from levada.errors import HandlerError
from levada.types import AnyRecord, ConsumerRecord

RECORD: AnyRecord = ConsumerRecord("t", 0, 7, 0, 0, None, b"", (), 0)


class TwoArgumentsError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")


class NumberError(Exception):
    def __reduce__(self) -> Any:
        return int, ("7",)


class StubbornError(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("never")


class SilentError(TwoArgumentsError):
    def __repr__(self) -> str:
        raise AttributeError("no name")


class EmptyError(Exception):
    """One that is false."""

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class FrozenError(Exception):
    """One that refuses to be changed."""

    status: int


class LeaveProgram(SystemExit):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)


def raised(error: BaseException) -> BaseException:
    """Return what a handler's exception is in the process that asked for the call."""

    def handle(record: Any) -> None:
        raise error

    with pytest.raises(Raised) as told:
        call(handle, RECORD)
    assert told.value.error is error
    sent: Raised = pickle.loads(pickle.dumps(told.value))
    assert "in handle" in str(sent.error.__cause__), "where it was raised is told"
    return sent.error


@pytest.mark.parametrize("error", [ValueError("bad", 7), EmptyError("gone"), SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_an_exception_that_unpickles_comes_as_it_is(error: BaseException) -> None:
    came = raised(error)
    assert (type(came), came.args) == (type(error), error.args)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TwoArgumentsError(503, "busy"), r"TwoArgumentsError\('503: busy'\)"),
        (NumberError, r"NumberError\(\)"),
        (StubbornError, r"StubbornError\(\)"),
        (lambda: SilentError(503, "busy"), "<SilentError whose repr"),
        (lambda: FrozenError(503), r"FrozenError\(status=503\)"),
        (lambda: ValueError(lambda: None), r"ValueError\(<function"),
    ],
)
def test_an_exception_that_does_not_unpickle_comes_as_text(make: Callable[[], Exception], text: str) -> None:
    came = raised(make())
    assert isinstance(came, HandlerError)
    assert f"{came}".startswith("the handler raised ")
    with pytest.raises(HandlerError, match=text):
        raise came


def test_an_exception_that_means_the_program_ends_it_although_it_does_not_unpickle() -> None:
    came = raised(LeaveProgram(3, "enough"))
    assert type(came) is SystemExit
    assert "LeaveProgram('enough')" in str(came)


def test_what_unpickles_in_the_worker_only_comes_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Raised(TwoArgumentsTaker("here")))
    monkeypatch.delitem(globals(), "TwoArgumentsTaker")
    came = pickle.loads(sent).error
    assert isinstance(came, HandlerError)
    assert "raised TwoArgumentsTaker('here') in another process" in str(came)


class TwoArgumentsTaker(Exception): ...


def test_what_a_handler_returns_is_dropped() -> None:
    seen: list[Any] = []

    def handle(record: Any) -> Any:
        seen.append(record)
        return object()

    assert call(handle, RECORD) is None  # type: ignore[func-returns-value]
    assert seen == [RECORD]


def test_a_coroutine_that_nobody_awaits_is_no_failure_of_the_record() -> None:
    async def handle(record: Any) -> None: ...

    with pytest.raises(CannotRun, match="no executor awaits"):
        call(handle, RECORD)


def test_another_awaitable_is_none_either() -> None:
    class Query:
        def __await__(self) -> Any:
            yield

    with pytest.raises(CannotRun, match="returned an awaitable Query, which no executor awaits"):
        call(lambda record: Query(), RECORD)


def test_a_generator_that_nobody_iterates_is_no_failure_of_the_record() -> None:
    def handle(record: Any) -> Any:
        yield record

    async def handle_in_tasks(record: Any) -> Any:
        yield record

    for handler in (handle, handle_in_tasks):
        with pytest.raises(CannotRun, match="returned a generator"):
            call(handler, RECORD)


def test_a_worker_whose_parent_has_ended_before_the_worker_began_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parent:
        """One that has ended, with its pipe still open in another of its children."""

        pid = -1

        def is_alive(self) -> bool:
            return "waited" not in done

        def join(self, _: float) -> None:
            done.append("waited")

    def end(_: int) -> None:
        done.append("ended")
        has_ended.set()

    done: list[str] = []
    has_ended = threading.Event()
    monkeypatch.setattr(multiprocessing, "parent_process", Parent)
    monkeypatch.setattr(os, "_exit", end)
    handler = signal.getsignal(signal.SIGINT)
    try:
        begin_worker()
        assert has_ended.wait(60)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert done == ["ended"]


def test_a_record_that_does_not_unpickle_fails_and_a_handler_that_does_not_cannot_run() -> None:
    with pytest.raises(Raised) as told:
        call_pickled(pickle.dumps(print), b"no pickle")
    assert isinstance(told.value.error, pickle.UnpicklingError)
    with pytest.raises(CannotRun, match="cannot be imported in a worker process: UnpicklingError"):
        call_pickled(b"no pickle", pickle.dumps(RECORD))

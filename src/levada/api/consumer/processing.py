"""What consumer.process() does in both APIs: where handlers run, and what a handler's outcome means for its record."""

from __future__ import annotations

import inspect
import pickle
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, Literal, NamedTuple, TypeAlias

from levada.api.arguments import checked_timeout, whole
from levada.api.consumer.workers import CannotRun, Interrupted, Raised, begin_worker, call, call_pickled
from levada.base.text import as_text, did_you_mean, shown
from levada.config import ConsumerConfig
from levada.consumer.acks.record import AckRecord, delay_ms
from levada.consumer.acks.unacked import WorkLimit
from levada.errors import ConfigError, ProcessingError
from levada.types import AnyRecord

RetryDelay: TypeAlias = float | Callable[[int], float]
Where: TypeAlias = Literal["thread", "process"] | Executor
Submit: TypeAlias = Callable[[AnyRecord], "Future[Any]"]
"""Calls the handler with a record. The future has its result or exception, for Outcomes.executed()."""

ENDING_S = 5.0
"""How long a handler that was interrupted or cancelled may take to end."""


class Refused(Exception):
    """The executor did not accept a record; its cause says why."""


class Outcomes(NamedTuple):
    """Decides about each record whose handler has ended.

    retries: how often a record is processed again after a failure; None for no limit. retry_delay: seconds before each retry, or a function
    that returns them for the number of the failed attempt, from 1 on. may_reject: whether a record is written to a dead-letter topic after
    its last failure.
    """

    retries: int | None
    retry_delay: RetryDelay
    may_reject: bool

    def settle(self, record: AckRecord[Any, Any], error: BaseException | None) -> None:
        """Acknowledge, retry, reject or fail a record by the result of its handler. error: what the handler raised; None for success.

        If the handler itself has called ack(), nack(), reject() or fail() of the record, that call counts.
        """
        if error is None:
            record.ack()
        elif isinstance(error, CannotRun):
            record.fail(TypeError(str(error)))
        elif not isinstance(error, Exception | CancelledError):
            # SystemExit, KeyboardInterrupt: the handler means the program, not the record.
            record.fail(error)
        elif self.retries is None or record.attempt <= self.retries:
            self._retry(record, error)
        elif self.may_reject:
            record.reject(error)
        else:
            record.fail(_failed(record, error))

    def _retry(self, record: AckRecord[Any, Any], error: BaseException) -> None:
        try:
            record.nack(self.retry_delay(record.attempt) if callable(self.retry_delay) else self.retry_delay)
        except Exception as wrong:
            record.fail(_no_delay(record, error, wrong))
        except BaseException as ending:
            # SystemExit, KeyboardInterrupt: it means the program.
            record.fail(ending)

    def executed(self, record: AckRecord[Any, Any], error: BaseException | None) -> None:
        """Settle a record by the result of its future. error: the exception of the future; None for success.

        An exception of the handler comes wrapped in Raised. A record whose future was cancelled is processed again. Any other exception is
        a failure of the executor and ends process(); the record is neither retried nor rejected.
        """
        if error is None or isinstance(error, CannotRun):
            self.settle(record, error)
        elif isinstance(error, Raised):
            self.settle(record, error.error)
        elif isinstance(error, CancelledError | FutureCancelledError):
            record.nack()
        elif not isinstance(error, Exception):
            record.fail(error)
        else:
            record.fail(_executor_failed(record, error))

    def follow(self, record: AckRecord[Any, Any], future: Future[Any]) -> None:
        """Settle a record by its future, which is done."""
        self.executed(record, FutureCancelledError() if future.cancelled() else future.exception())


def outcomes(config: ConsumerConfig, retries: Any, retry_delay: Any, *, may_reject: bool) -> Outcomes:
    """Check the arguments retries and retry_delay of process(). Raises TypeError and ValueError for them.

    Raises ConfigError if a group.id is set but enable.auto.commit is false.
    """
    if config.group_id and not config.enable_auto_commit:
        raise ConfigError(
            "process() commits what is done by itself, and 'enable.auto.commit' is false, so that nothing would ever be committed; leave "
            "that setting out, or use acks() and commit() what it has done"
        )
    if retries is not None and whole("retries", retries) < 0:
        raise ValueError(f"retries is how often a record is handed out again, 0 or more, or None for ever; got {retries}")
    if not callable(retry_delay):
        delay_ms("retry_delay", retry_delay)
    elif _is_coroutine_function(retry_delay):
        raise TypeError(f"retry_delay is a number of seconds or a function that returns one, and nothing awaits {retry_delay!r}")
    return Outcomes(retries, retry_delay, may_reject)


def _is_coroutine_function(handler: Any) -> bool:
    """Return whether a call of the handler makes a coroutine. The handler may also be an object with a __call__() method."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def refuse_generator_function(handler: Any) -> None:
    """Raise TypeError for a handler that is a generator function, because calling it runs nothing."""
    for function in (handler, type(handler).__call__):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("the handler is a generator function: calling it runs nothing of it; give a function without yield")


# How long a handler may take


def handler_seconds(timeout: Any) -> float | None:
    """Check the argument handler_timeout and return it in seconds; None for no limit. Raises ValueError, TypeError."""
    if timeout is not None and not checked_timeout(timeout) > 0:
        raise ValueError(f"handler_timeout is a number of seconds above 0, or None for no limit; got {timeout!r}")
    return None if timeout is None else float(timeout)


def work_limit(seconds: float | None, executor: Any) -> WorkLimit | None:
    """Return the time limit after which process() fails a record although its handler still runs; None for no limit.

    seconds: handler_timeout. executor: the argument of process(). Worker processes need no such limit, because they are interrupted and
    ended.
    """
    if seconds is None or executor == "process":
        return None
    if executor is None:
        return WorkLimit(int((seconds + ENDING_S) * 1000), partial(_ignores_cancellation, seconds, ENDING_S))
    return WorkLimit(int(seconds * 1000), partial(_still_runs, seconds))


# Where handlers run


@contextmanager
def executor_for(where: Any, concurrency: int, handler: Any, seconds: float | None, is_idle: Callable[[], bool]) -> Iterator[Submit]:
    """Return a context that yields a function that runs the handler for a record: in threads, in processes or in the program's own
    executor.

    At the end of the context, levada's own executor is shut down. where: the argument executor of process(). seconds: how long a handler
    may take; None for no limit. is_idle: whether all handlers have ended; if so, the context waits for the workers, else it leaves them
    running. Raises TypeError and ValueError for an executor that cannot run the handler.
    """
    if _is_coroutine_function(handler):
        raise TypeError("the handler is a coroutine function; only consumers of levada.aio await it, and no executor does")
    refuse_generator_function(handler)
    if isinstance(where, Executor):
        yield _submit_to(where, handler)
        return
    if not isinstance(where, str) or where not in _POOLS:
        raise ValueError(f"executor is 'thread', 'process' or an Executor, got {where!r}{did_you_mean(str(where), _POOLS)}")
    if seconds is not None and where == "process":
        handler = Interrupted(handler, seconds, ENDING_S)
    pool = _POOLS[where](concurrency)
    try:
        yield _submit_to(pool, handler)
    finally:
        pool.shutdown(wait=is_idle(), cancel_futures=True)


def _threads(concurrency: int) -> Executor:
    return ThreadPoolExecutor(concurrency, thread_name_prefix="levada-handler")


def _processes(concurrency: int) -> Executor:
    # Spawned: a fork would copy the locks of this process's threads as they are.
    return ProcessPoolExecutor(concurrency, get_context("spawn"), begin_worker)


_POOLS: dict[str, Callable[[int], Executor]] = {"thread": _threads, "process": _processes}


def _submit_to(pool: Executor, handler: Any) -> Submit:
    if not isinstance(pool, ProcessPoolExecutor):
        return lambda record: _submitted(pool, call, handler, record)
    try:
        pickled = pickle.dumps(handler)
    except Exception as error:
        raise TypeError(
            f"the handler cannot be sent to another process: {as_text(error)}; give a function that is defined at the top of a module"
        ) from error
    return lambda record: _submit_pickled(pool, pickled, record)


def _submit_pickled(pool: ProcessPoolExecutor, handler: bytes, record: AnyRecord) -> Future[Any]:
    try:
        pickled = pickle.dumps(record)
    except Exception as error:
        return _ended(Raised(error))
    return _submitted(pool, call_pickled, handler, pickled)


def _submitted(pool: Executor, function: Callable[..., None], *given: Any) -> Future[Any]:
    try:
        return pool.submit(function, *given)
    except Exception as error:
        refused = Refused()
        refused.__cause__ = error
        return _ended(refused)


def _ended(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


_AGAIN = "Nothing is committed past this record: the next process() is given it again"


def _place(record: AnyRecord) -> str:
    return f"{record.topic}-{record.partition} at offset {record.offset}"


def _ended_by(record: AckRecord[Any, Any], text: str, cause: BaseException) -> ProcessingError:
    made = ProcessingError(f"{_place(record)}: {text}", record, record.attempt)
    made.__cause__ = cause
    return made


def _failed(record: AckRecord[Any, Any], error: BaseException) -> ProcessingError:
    times = "once" if record.attempt == 1 else f"{record.attempt} times"
    return _ended_by(
        record,
        f"the handler failed {times}, the last time with {shown(error)}. {_AGAIN}. More retries, or "
        "dead_letter=DeadLetter(producer, topic), keep one record from ending process()",
        error,
    )


def _no_delay(record: AckRecord[Any, Any], error: BaseException, wrong: Exception) -> ProcessingError:
    return _ended_by(
        record,
        f"the handler failed with {shown(error)}, and retry_delay, called with {record.attempt}, did not say when to call it again: "
        f"{shown(wrong)}. It has to return a number of seconds, 0 or more. {_AGAIN}",
        wrong,
    )


def _still_runs(seconds: float, record: AnyRecord, attempt: int) -> ProcessingError:
    return ProcessingError(
        f"{_place(record)}: its handler has not returned within handler_timeout={seconds:g} s, and still runs: no thread can be "
        f"interrupted. {_AGAIN}. Python waits for such a thread when the program exits; os._exit() does not. Coroutines, and handlers in "
        "executor='process', are interrupted",
        record,
        attempt,
    )


def _ignores_cancellation(seconds: float, ending_s: float, record: AnyRecord, attempt: int) -> ProcessingError:
    return ProcessingError(
        f"{_place(record)}: its handler was cancelled after handler_timeout={seconds:g} s, and has not ended within {ending_s:g} s: it "
        f"catches asyncio.CancelledError and goes on, or blocks the event loop. {_AGAIN}. asyncio.run() waits for such a task at its end; "
        "let the handler raise CancelledError again after its clean-up",
        record,
        attempt,
    )


def _executor_failed(record: AckRecord[Any, Any], error: Exception) -> ProcessingError:
    cause: BaseException = error
    if isinstance(error, Refused):
        cause = error.__cause__ or error
        text = f"the executor did not take the record: {shown(cause)}. {_AGAIN}"
    elif not isinstance(error, BrokenProcessPool):
        text = f"the executor failed, and not the handler: {shown(error)}. {_AGAIN}"
    elif error.__cause__ is not None:
        text = (
            "the executor's pool of processes broke while this record, and maybe others, were at work: something that a worker sent back "
            f"cannot be unpickled. No handler sends such a thing; it is of other work that the pool was given. {_AGAIN}"
        )
    else:
        text = (
            f"a worker of the executor died while this record, and maybe others, were at work ({error}). Its exit is not reported here: "
            "look for a crash in native code, os._exit(), or the system's out-of-memory killer; where no handler has begun, for a main "
            "program that is not under if __name__ == '__main__'. Nothing is committed past these records: the next process() is given "
            "them again, and a record that kills its worker will do so again"
        )
    return _ended_by(record, text, cause)

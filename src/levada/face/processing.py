"""What consumer.process() of both faces does with a handler's outcome, and where handlers run."""

from __future__ import annotations

import builtins
import faulthandler
import inspect
import pickle
import signal
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, Literal, NamedTuple, Never, TypeAlias

from levada.config import ConsumerConfig
from levada.consumer.acks.record import AckRecord
from levada.consumer.acks.unacked import WorkLimit
from levada.errors import ConfigError, ProcessingError
from levada.face.arguments import checked_timeout, whole
from levada.suggestion import did_you_mean
from levada.types import AnyRecord

RetryDelay: TypeAlias = float | Callable[[int], float]
Where: TypeAlias = Literal["thread", "process"] | Executor
Submit: TypeAlias = Callable[[AnyRecord], "Future[Any]"]
"""Has the handler called with a record."""

_STDERR: Final = 2


class Outcomes(NamedTuple):
    """What becomes of records whose handler has ended.

    retries: how often a record is handed out again after a failure, None for ever. retry_delay: seconds before that, or a function of the
    attempt that failed, from 1 on. may_reject: whether records that fail for the last time go to a dead-letter topic.
    """

    retries: int | None
    retry_delay: RetryDelay
    may_reject: bool

    def settle(self, record: AckRecord[Any, Any], error: BaseException | None) -> None:
        """Say of a record what follows from its handler's end. What the handler has said itself counts."""
        if error is None:
            record.ack()
        elif isinstance(error, BrokenExecutor):
            record.fail(_worker_died(record, error))
        elif not isinstance(error, Exception | CancelledError):
            # SystemExit, KeyboardInterrupt: the handler means the program, not the record.
            record.fail(error)
        elif self.retries is None or record.attempt <= self.retries:
            self._retry(record)
        elif self.may_reject:
            record.reject(error)
        else:
            record.fail(_failed(record, error))

    def _retry(self, record: AckRecord[Any, Any]) -> None:
        try:
            record.nack(self.retry_delay(record.attempt) if callable(self.retry_delay) else self.retry_delay)
        except Exception as wrong:
            record.fail(wrong)

    def follow(self, record: AckRecord[Any, Any], future: Future[Any]) -> None:
        """Settle a record with the end of its handler in an executor."""
        if future.cancelled():
            record.nack()
        else:
            self.settle(record, future.exception())


def outcomes(config: ConsumerConfig, retries: Any, retry_delay: Any, *, may_reject: bool) -> Outcomes:
    """Return what becomes of records, from the arguments of process(). Raises ConfigError where nothing would ever be committed."""
    if config.group_id and not config.enable_auto_commit:
        raise ConfigError(
            "process() commits what is done by itself, and 'enable.auto.commit' is false, so that nothing would ever be committed; leave "
            "that setting out, or use acks() and commit() what it has done"
        )
    if retries is not None and whole("retries", retries) < 0:
        raise ValueError(f"retries is how often a record is handed out again, 0 or more, or None for ever; got {retries}")
    if not callable(retry_delay):
        checked_timeout(retry_delay)
    return Outcomes(retries, retry_delay, may_reject)


def _is_coroutine_function(handler: Any) -> bool:
    """Whether calling it makes a coroutine; an object may have a __call__() that does."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


# How long a handler may take


def handler_seconds(timeout: Any) -> float | None:
    """Return the argument handler_timeout. Raises ValueError, TypeError."""
    if timeout is not None and not checked_timeout(timeout) > 0:
        raise ValueError(f"handler_timeout is a number of seconds above 0, or None for no limit; got {timeout!r}")
    return None if timeout is None else float(timeout)


def work_limit(seconds: float | None, executor: Any) -> WorkLimit | None:
    """Return after how long process() ends although a handler runs, None for never: only where nothing can interrupt the handler."""
    if seconds is None or executor is None or executor == "process":
        return None
    return WorkLimit(int(seconds * 1000), partial(_still_runs, seconds))


def interrupted(seconds: float) -> builtins.TimeoutError:
    """Return the error of a handler that was interrupted."""
    return builtins.TimeoutError(f"the handler was interrupted after handler_timeout={seconds:g} s")


class Interrupted:
    """A handler that is interrupted when it takes too long. It runs in the main thread of a process that does nothing else."""

    exit_after_s = 5.0
    """How long it has to end then. Code outside of Python does not notice an interruption, and its process is ended."""

    def __init__(self, handler: Callable[[Any], object], seconds: float) -> None:
        self._handler = handler
        self._seconds = seconds
        self._exit_after_s = self.exit_after_s

    def __call__(self, record: AnyRecord) -> object:
        """Call the handler. Raises TimeoutError, and ends the process where that does not end the handler."""
        has_alarms = hasattr(signal, "setitimer")  # Windows has none.
        faulthandler.dump_traceback_later(self._seconds + (self._exit_after_s if has_alarms else 0), exit=True, file=_STDERR)
        try:
            if not has_alarms:
                return self._handler(record)
            signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            try:
                return self._handler(record)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _interrupt(self, *_: object) -> Never:
        raise interrupted(self._seconds)


# Where handlers run


@contextmanager
def executor_for(where: Any, concurrency: int, handler: Any, seconds: float | None, is_idle: Callable[[], bool]) -> Iterator[Submit]:
    """Have handlers run in threads, processes or a program's own executor. At the end ours is shut down.

    seconds: how long a handler may take. is_idle: whether all handlers have ended; then its workers are waited for. Those that still run
    are left to themselves. Raises TypeError and ValueError for what no handler can run in.
    """
    if _is_coroutine_function(handler):
        raise TypeError("the handler is a coroutine function; only consumers of levada.aio await it, and no executor does")
    if isinstance(where, Executor):
        yield lambda record: where.submit(handler, record)
        return
    if not isinstance(where, str) or where not in _POOLS:
        raise ValueError(f"executor is 'thread', 'process' or an Executor, got {where!r}{did_you_mean(str(where), _POOLS)}")
    pool = _POOLS[where](concurrency, handler)
    runs: Callable[[AnyRecord], object] = handler if seconds is None or where != "process" else Interrupted(handler, seconds)
    try:
        yield lambda record: pool.submit(runs, record)
    finally:
        pool.shutdown(wait=is_idle(), cancel_futures=True)


def _threads(concurrency: int, handler: Any) -> Executor:
    return ThreadPoolExecutor(concurrency, thread_name_prefix="levada-handler")


def _processes(concurrency: int, handler: Any) -> Executor:
    try:
        pickle.dumps(handler)
    except Exception as error:
        raise TypeError(
            f"the handler cannot be sent to another process: {error}; give a function that is defined at the top of a module"
        ) from error
    # Spawned: a fork would copy the locks of this process's threads as they are. Ctrl-C is for the program, which lets them finish.
    return ProcessPoolExecutor(concurrency, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))


_POOLS: dict[str, Callable[[int, Any], Executor]] = {"thread": _threads, "process": _processes}


def _place(record: AnyRecord) -> str:
    return f"{record.topic}-{record.partition} at offset {record.offset}"


def _failed(record: AckRecord[Any, Any], error: BaseException) -> ProcessingError:
    times = "once" if record.attempt == 1 else f"{record.attempt} times"
    made = ProcessingError(
        f"{_place(record)}: the handler failed {times}, the last time with {error!r}. Nothing is committed past this record: the next "
        "process() is given it again. More retries, or dead_letter=DeadLetter(producer, topic), keep one record from ending process()",
        record,
        record.attempt,
    )
    made.__cause__ = error
    return made


def _still_runs(seconds: float, record: AnyRecord, attempt: int) -> ProcessingError:
    return ProcessingError(
        f"{_place(record)}: its handler has not returned within handler_timeout={seconds:g} s, and still runs: no thread can be "
        "interrupted. Nothing is committed past this record: the next process() is given it again. Python waits for such a thread when the "
        "program exits; os._exit() does not. Coroutines, and handlers in executor='process', are interrupted",
        record,
        attempt,
    )


def _worker_died(record: AckRecord[Any, Any], error: BaseException) -> ProcessingError:
    made = ProcessingError(
        f"{_place(record)}: a worker of the executor died while this record, and maybe others, were at work ({error}). Its exit is not "
        "reported here: look for a crash in native code, os._exit(), or the system's out-of-memory killer. Nothing is committed past these "
        "records: the next process() is given them again, and a record that kills its worker will do so again",
        record,
        record.attempt,
    )
    made.__cause__ = error
    return made

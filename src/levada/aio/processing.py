"""consumer.process() on asyncio: a loop over consumer.acks() with a task for each record."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from levada.aio.acks import Acks
from levada.api.consumer import processing
from levada.api.consumer.workers import CannotRun, check_ran, interrupted
from levada.errors import KafkaError
from levada.logs import Log

Settle: TypeAlias = Callable[[Any, BaseException | None], None]
"""Acknowledges a record by the outcome of `run`."""


class Processing:
    """Runs a handler for every record of an acks().

    run: calls the handler; its result is awaited. seconds: after how many seconds a handler is cancelled; None for no limit.
    """

    def __init__(self, acks: Acks[Any, Any], run: Callable[[Any], object], settle: Settle, seconds: float | None, log: Log) -> None:
        self._log = log
        self._acks = acks
        self._run = run
        self._settle = settle
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends_at_once = False

    async def until_over(self, finish_s: float) -> None:
        """Handle records until the loop ends. finish_s: for how many seconds to wait for running handlers after an error or wakeup().

        Handlers that run after that, or when this call is cancelled, are cancelled.
        """
        try:
            async for record in self._acks:
                task = asyncio.get_running_loop().create_task(self._handle(record), name=_name(record))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self._finish(finish_s)
            raise
        finally:
            await self._cancel_rest()

    async def _handle(self, record: Any) -> None:
        try:
            ending = self._run(record)
            if not inspect.isawaitable(ending):
                check_ran(ending)
                raise CannotRun(f"{self._run!r} is no coroutine function; a plain function needs executor='thread' or 'process'")
            check_ran(await self._in_time(ending))
        except BaseException as error:
            if self._ends_at_once:
                raise
            self._settle(record, error)
        else:
            self._settle(record, None)

    async def _in_time(self, ending: Awaitable[object]) -> object:
        try:
            async with asyncio.timeout(self._seconds) as time:
                return await ending
        except TimeoutError:
            if self._seconds is None or not time.expired():
                raise
            raise interrupted(self._seconds) from None

    async def _finish(self, finish_s: float) -> None:
        try:
            await self._acks.wait_empty(finish_s)
        except KafkaError as error:
            # Why process() ends is another error, which its caller gets.
            self._log.warning("process() ends, and cancels handlers that still run; their records are read again: %s", error)

    async def _cancel_rest(self) -> None:
        self._ends_at_once = True
        for task in self._tasks:
            task.cancel()
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks, timeout=processing.ENDING_S)
        if left:
            self._log.warning(
                "process() ends, although handlers that it has cancelled still run after %g s: %s; they catch asyncio.CancelledError "
                "and go on. Nothing is committed for them; asyncio.run() waits for them at its end",
                processing.ENDING_S,
                ", ".join(sorted(task.get_name() for task in left)),
            )


def _name(record: Any) -> str:
    return f"handler of {record.topic}-{record.partition} at offset {record.offset}"

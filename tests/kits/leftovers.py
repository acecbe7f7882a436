"""What a test may leave behind: threads, sockets, tasks of levada, and memory of producers that were closed."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from asyncio import runners
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import levada
from levada.errors import KafkaError
from levada.producer import core
from levada.producer.append.buffer_pool import BufferPool

PATIENCE_S = 3.0
SOURCE = str(Path(levada.__file__).parent)


@contextmanager
def watched(*, tasks: bool = True) -> Iterator[None]:
    """Fail when something outlives the block, with `tasks` also what event loops had to cancel. Threads, sockets, memory have a moment."""
    threads, sockets = set(threading.enumerate()), _open_sockets()
    with _noted_pools() as pools, _noted_tasks() as cancelled:
        yield
    deadline = time.monotonic() + PATIENCE_S
    while (left := [*_running(threads), *sorted(_open_sockets() - sockets), *_charged(pools)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    if tasks:
        left += cancelled
    if left:
        pytest.fail(f"outlived the test: {', '.join(left)}", pytrace=False)


def _running(before: set[threading.Thread]) -> list[str]:
    return [f"thread {thread.name!r}" for thread in threading.enumerate() if thread not in before]


def _open_sockets() -> set[str]:
    """Name this process's sockets, as Linux does; elsewhere they are not watched."""
    names = set()
    descriptors = Path("/proc/self/fd")
    for descriptor in descriptors.iterdir() if descriptors.is_dir() else ():
        try:
            target = os.readlink(descriptor)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("socket:"):
            names.add(target)
    return names


@contextmanager
def _noted_pools() -> Iterator[list[BufferPool]]:
    """Note the buffer.memory of every producer that is made."""
    pools: list[BufferPool] = []

    def noted(total: int) -> BufferPool:
        pools.append(BufferPool(total))
        return pools[-1]

    with _replaced(core, "BufferPool", noted):
        yield pools


def _charged(pools: list[BufferPool]) -> list[str]:
    """Return how much is charged to producers that were closed."""
    return [f"{pool.total - pool.available} bytes of buffer.memory" for pool in pools if _is_closed(pool) and pool.available != pool.total]


def _is_closed(pool: BufferPool) -> bool:
    try:
        pool.try_allocate(0)
    except KafkaError:
        return True
    return False


@contextmanager
def _noted_tasks() -> Iterator[list[str]]:
    """Note tasks of levada that asyncio.run() has to cancel when the program's own task has ended."""
    left: list[str] = []
    cancel_all: Callable[[asyncio.AbstractEventLoop], None] = runners._cancel_all_tasks  # type: ignore[attr-defined]

    def noted(loop: asyncio.AbstractEventLoop) -> None:
        left.extend(f"task {task.get_name()!r} of {where}" for task in asyncio.all_tasks(loop) if (where := _ours(task)))
        cancel_all(loop)

    with _replaced(runners, "_cancel_all_tasks", noted):
        yield left


def _ours(task: asyncio.Task[Any]) -> str:
    """Return which coroutine of levada a task runs, empty when it runs another's."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code.co_qualname if code is not None and code.co_filename.startswith(SOURCE) else ""


@contextmanager
def _replaced(where: Any, name: str, by: object) -> Iterator[None]:
    before = getattr(where, name)
    setattr(where, name, by)
    try:
        yield
    finally:
        setattr(where, name, before)

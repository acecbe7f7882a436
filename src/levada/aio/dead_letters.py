"""Sends dead letters with a producer of levada.aio, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from levada.api.consumer.dead_letters import fitted, most_bytes
from levada.consumer.consumer_flows import Post
from levada.dead_letter import DeadLetter
from levada.interceptors import ProducerRecord


def posting(to: DeadLetter | None) -> Post | None:
    """Return the function that sends dead letters; None if there is no DeadLetter."""
    return None if to is None else _Posting(to)


class _Posting:
    """Sends dead letters in tasks. It keeps references to the tasks, because an event loop has only weak ones."""

    def __init__(self, to: DeadLetter) -> None:
        self._producer = to.producer
        self._limit = most_bytes(to)
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, record: ProducerRecord, settled: Callable[[BaseException | None], None]) -> None:
        task = asyncio.get_running_loop().create_task(
            self._send(fitted(record, self._limit), settled), name=f"dead letter to {record.topic}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, record: ProducerRecord, settled: Callable[[BaseException | None], None]) -> None:
        try:
            await self._producer.send(
                record.topic, record.value, record.key, headers=record.headers, on_delivery=lambda _, error: settled(error)
            )
        except Exception as failure:
            settled(failure)

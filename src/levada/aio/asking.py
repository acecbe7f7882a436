"""Serializers that may have to ask a schema registry, for a producer on an event loop, which must not wait for the answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, TypeAlias

from levada.base.asking import AsksRegistry, Convert, asks_registry
from levada.serialization import Serializer

Serializers: TypeAlias = tuple[Serializer | None, Serializer | None]
"""Of keys and of values."""


class Asking:
    """Asks schema registries in the loop's executor, and one question once, however many tasks wait for its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serializers: Serializers) -> None:
        self._loop = loop
        self._serializers = serializers
        self._key, self._value = (one if asks_registry(one) else None for one in serializers)
        self._questions: dict[AsksRegistry, asyncio.Future[Convert]] = {}

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop, serializers: Serializers) -> Asking | None:
        """Return an object for these serializers; None if none of them asks a registry."""
        return Asking(loop, serializers) if any(asks_registry(one) for one in serializers) else None

    def known(self, key: Any, value: Any) -> Serializers | None:
        """Return functions that serialize this key and this value; None if a registry has to be asked."""
        for_key, for_value = self._serializers
        if self._key is not None and (for_key := self._key._known(key)) is None:
            return None
        if self._value is not None and (for_value := self._value._known(value)) is None:
            return None
        return for_key, for_value

    async def find(self, key: Any, value: Any) -> Serializers:
        """Return functions that serialize this key and this value, after asking the registries if necessary.

        If a question fails, its function raises the error. If the task is cancelled, the question continues for other tasks.
        """
        for_key, for_value = self._serializers
        if self._key is not None:
            for_key = await self._find(self._key, key)
        if self._value is not None:
            for_value = await self._find(self._value, value)
        return for_key, for_value

    async def _find(self, serializer: AsksRegistry, data: Any) -> Serializer:
        if (convert := serializer._known(data)) is not None:
            return convert
        question = self._questions.get(serializer)
        if question is None:
            question = self._questions[serializer] = self._loop.run_in_executor(None, serializer._find, data)
            question.add_done_callback(partial(self._end, serializer))
        try:
            return await asyncio.shield(question)
        except Exception as error:
            return _raising(error)

    def _end(self, serializer: AsksRegistry, question: asyncio.Future[Convert]) -> None:
        del self._questions[serializer]
        if not question.cancelled():
            # asyncio logs an exception that was never retrieved. All tasks that waited may have been cancelled.
            question.exception()


def _raising(error: Exception) -> Serializer:
    def fail(data: Any) -> None:
        raise error.with_traceback(None)

    return fail

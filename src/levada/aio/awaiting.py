"""Functions of the user's that return awaitables, called in threads beside the loop (api.helper_threads)."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import CancelledError
from typing import Any

from levada.api.helper_threads import Finish
from levada.errors import ClosedError


def finish_in(loop: asyncio.AbstractEventLoop) -> Finish:
    """Return what has an awaitable run in a loop, for a helper's thread to wait for."""

    def finish(found: Any) -> Any:
        if not inspect.isawaitable(found):
            return found
        waiting = _awaited(found)
        try:
            running = asyncio.run_coroutine_threadsafe(waiting, loop)
        except RuntimeError as error:
            for coroutine in (waiting, found):
                if inspect.iscoroutine(coroutine):
                    coroutine.close()
            raise ClosedError("the event loop ended before a token was fetched") from error
        try:
            return running.result()
        except CancelledError as error:
            raise ClosedError("the event loop ended while a token was fetched") from error

    return finish


async def _awaited(found: Any) -> Any:
    return await found

"""Makes a client's engine and its driver on the running event loop from its configuration, and starts the driver."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from concurrent.futures import CancelledError
from random import Random
from typing import Any

from levada.aio.driver import Driver, running_loop
from levada.api.engine_setup import client_name, engine_for, selector_for
from levada.api.logins import Finish, login_for, start_helper
from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.errors import ClosedError


def connect(config: ClientConfig, kind: str) -> tuple[Engine, Driver]:
    """Return an engine that uses sockets, and its driver, which is not started. kind: for example "producer"; part of the default
    client.id.
    """
    name = client_name(config, kind)
    loop = running_loop(f"{kind} '{name}'")
    login = login_for(config, start_helper, finish_in(loop))
    selector = selector_for(config)
    engine = engine_for(config, name, selector, Random())
    login(engine, selector)
    return engine, Driver(engine, selector, name=f"{kind} '{name}'")


def start(client: object, driver: Driver) -> None:
    """Start the driver of a client. The driver ends by itself when the last reference to the client is gone."""
    weakref.finalize(client, driver.abandon).atexit = False
    driver.start()


def finish_in(loop: asyncio.AbstractEventLoop) -> Finish:
    """Return a function for helper threads: it runs an awaitable in the event loop, waits, and returns the result.

    It returns other objects unchanged, and raises ClosedError if the event loop has ended.
    """

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

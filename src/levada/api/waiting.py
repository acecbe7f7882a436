"""Waits of callers, as flows that any driver runs: a flow yields what to wait for, and is resumed with whether it happened in time."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from levada.api.arguments import deadline_ms
from levada.base.flow import CallerFlow, Flow, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.network.network_client import timeout_error
from levada.errors import TimeoutError

T = TypeVar("T")

FLOW_GRACE_S = 0.25
"""How much longer than the flow its caller waits, because a flow that ends at its deadline raises a more exact error."""


def until_settled(promise: Promise[Any], engine: Engine, deadline_ms: int, timeout_s: float | None, what: str) -> CallerFlow[None]:
    """Wait until a promise is settled. At deadline_ms, raises TimeoutError, or BootstrapError if no broker was ever reached.

    timeout_s: the time limit in seconds, for the text of the error only. what: the name of the call, for the text.
    """
    if not (yield Until(promise, deadline_ms)):
        raise timeout_error(engine.network, TimeoutError(f"{what}: not done within {timeout_s:g} s"), timeout_s)


def result_of(host: Host, engine: Engine, promise: Promise[T], timeout_s: float | None, what: str) -> CallerFlow[T]:
    """Wait for a promise; return its value or raise its error. If the promise is not settled yet, raises as check_usable() and
    until_settled() do.

    what: the name of the call, for the text of a TimeoutError.
    """
    if not promise.done:
        host.check_usable()
        yield from until_settled(promise, engine, deadline_ms(host.now_ms(), timeout_s), timeout_s, what)
    return promise.result()


def run_flow(host: Host, engine: Engine, flow: Flow[T], timeout_s: float | None, what: str) -> CallerFlow[T]:
    """Run a flow on the engine to its end. An exception that interrupts the wait, such as KeyboardInterrupt, ends the flow, too.

    timeout_s: seconds; None for no limit. what: the name of the call, for the text of a TimeoutError.
    """
    host.check_usable()
    with host.lock:
        now_ms = host.now_ms()
        promise = engine.flows.start(flow, now_ms, deadline_ms=deadline_ms(now_ms, timeout_s), describe=what)
    # The waiting thread's step first takes in the events of the connections, and then sends.
    host.due_now()
    try:
        over_ms = deadline_ms(now_ms, None if timeout_s is None else timeout_s + FLOW_GRACE_S)
        yield from until_settled(promise, engine, over_ms, timeout_s, what)
        return promise.result()
    except TimeoutError as error:
        if error is not promise.error:
            raise
        raise timeout_error(engine.network, error, timeout_s) from None
    finally:
        if not promise.done:
            with host.lock:
                engine.flows.cancel(promise, host.now_ms())
            host.look()


def not_awaitable(found: Any, what: str) -> Any:
    """Return the result of a function of the program. Raises TypeError for an awaitable, which nothing would await. what: names the
    function.
    """
    if not inspect.isawaitable(found):
        return found
    if inspect.iscoroutine(found):
        found.close()
    raise TypeError(f"{what} is a coroutine function; only the clients of levada.aio await it")

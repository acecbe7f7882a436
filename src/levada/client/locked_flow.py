"""Flows that run under the engine's lock, in their caller's context, and wait without it.

Such a flow is a generator that yields what has to happen without the lock, and is resumed with the time in ms:

    WaitUntil   wait for a promise. Settled: resume, or throw the promise's error in. Time is over first: throw a TimeoutError in.
    Unlocked    run a function that takes its time.

Who gives up (a signal handler that raises, a cancelled task) closes the generator, under the lock; it gives back what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from levada.client.host import Host
from levada.client.network_client import NetworkClient
from levada.client.timeouts import timeout_error
from levada.errors import KafkaError, TimeoutError
from levada.flow import CallerFlow, Compute, Until
from levada.promise import Promise

T = TypeVar("T")


class WaitUntil(NamedTuple):
    """Wait without the lock until the promise is settled, at most until deadline_ms. what: is waited for, in words, for a TimeoutError."""

    promise: Promise[Any]
    deadline_ms: int
    what: str


class Unlocked(NamedTuple):
    """Run a function without the lock."""

    run: Callable[[], object]


LockedFlow: TypeAlias = Generator[WaitUntil | Unlocked, int, T]
"""See the module's text. Resumed with now_ms."""


def unlocked(begin: Callable[[int], LockedFlow[T]], host: Host, network: NetworkClient) -> CallerFlow[T]:
    """Turn a locked flow into a flow for a driver: its own code under the lock, its waits without. begin: makes it, given now_ms."""
    host.check_usable()
    flow = begin(host.now_ms())
    resume: Callable[[Any], WaitUntil | Unlocked] = flow.send
    value: Any = None
    try:
        while True:
            with host.lock:
                step = resume(value)
            resume, value = flow.send, None
            try:
                yield from _performed(step, host, network)
                value = host.now_ms()
            except KafkaError as error:
                resume, value = flow.throw, error
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        with host.lock:
            flow.close()
        # What it did, or gave back, may be what the engine or another caller waits for.
        host.look()


def _performed(step: WaitUntil | Unlocked, host: Host, network: NetworkClient) -> CallerFlow[None]:
    if isinstance(step, Unlocked):
        yield Compute(step.run)
        return
    host.look()
    began_ms = host.now_ms()
    if not (yield Until(step.promise, step.deadline_ms)):
        waited_s = max(step.deadline_ms - began_ms, 0) / 1000
        with host.lock:
            raise timeout_error(network, TimeoutError(f"{step.what}: not done within {waited_s:g} s"), waited_s)
    if step.promise.error is not None:
        raise step.promise.error

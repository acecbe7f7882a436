"""Runs the producer's caller-driven flows on the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from levada.errors import KafkaError
from levada.producer.appending import CallerFlow, Unlocked, WaitUntil
from levada.sync.driver import Driver
from levada.sync.interrupts import DeferredInterrupts

T = TypeVar("T")


def drive(driver: Driver, begin: Callable[[int], CallerFlow[T]]) -> T:
    """Run a flow to its end: its own code under the engine's lock, its waits without. begin: makes it, given now_ms."""
    flow = begin(driver.now_ms())
    try:
        return _steps(driver, flow)
    finally:
        with driver.lock:
            flow.close()
        # What it gave back may be what another thread waits for, and that one may be asleep in select().
        driver.wakeup()


def _steps(driver: Driver, flow: Generator[WaitUntil | Unlocked, int, T]) -> T:
    error: KafkaError | None = None
    resumed: Any = None
    while True:
        try:
            with driver.lock:
                step = flow.send(resumed) if error is None else flow.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        error = _take(driver, step)
        resumed = driver.now_ms()


def _take(driver: Driver, step: WaitUntil | Unlocked) -> KafkaError | None:
    try:
        if isinstance(step, WaitUntil):
            driver.wakeup()
            timeout_s = max(step.deadline_ms - driver.now_ms(), 0) / 1000
            driver.wait(step.promise, timeout_s, step.what)
        else:
            with DeferredInterrupts(_nothing):
                step.run()
    except KafkaError as failed:
        return failed
    return None


def _nothing() -> None:
    """Nobody needs to be woken for an interrupt that comes in the middle of a step."""

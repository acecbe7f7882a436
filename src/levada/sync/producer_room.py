"""Runs the producer's flows on the calling thread."""

from __future__ import annotations

from typing import Any, TypeVar

from levada.errors import KafkaError, TimeoutError
from levada.flow import CallerFlow, CallerStep, Until
from levada.sync.driver import Driver
from levada.sync.interrupts import DeferredInterrupts

T = TypeVar("T")


def drive(driver: Driver, flow: CallerFlow[T]) -> T:
    """Run a flow to its end."""
    resumed: Any = None
    try:
        while True:
            step = flow.send(resumed)
            try:
                resumed = _take(driver, step)
            except KeyboardInterrupt as interrupt:
                flow.throw(interrupt)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()


def _take(driver: Driver, step: CallerStep) -> Any:
    if not isinstance(step, Until):
        with DeferredInterrupts(_nothing):
            return step.run()
    try:
        driver.wait(step.promise, max(step.deadline_ms - driver.now_ms(), 0) / 1000, "")
    except TimeoutError:
        return step.promise.done
    except KafkaError:
        if not step.promise.done:
            raise
    return True


def _nothing() -> None:
    """Nobody needs to be woken for an interrupt that comes in the middle of a step."""

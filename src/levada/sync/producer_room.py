"""Where send() may wait: for metadata of a topic, and for room in buffer.memory (K3, K4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from levada.clock import NEVER_MS
from levada.errors import BootstrapError, BufferExhaustedError, TimeoutError
from levada.face.signals import DeferredSignals
from levada.producer.buffer_pool import Ticket
from levada.producer.core import ProducerCore
from levada.producer.partition_queue import TopicQueues
from levada.sync.driver import Driver

T = TypeVar("T")


class Room:
    """Waits on behalf of a calling thread, without the engine's lock. `limit` names the time allowed, for errors."""

    def __init__(self, core: ProducerCore, driver: Driver, max_block_ms: int) -> None:
        self.limit = f"max.block.ms={max_block_ms}"
        self._core = core
        self._driver = driver
        self._max_block_ms = max_block_ms

    def find(self, append: Callable[[Ticket | None], T | Ticket | None], topic: str, partition: int | None, *, patient: bool = True) -> T:
        """Call append, under the lock, until it succeeds, and wait for what it lacks; max.block.ms bounds all waits together.

        patient: False does not wait at all.
        """
        deadline_ms = self._driver.now_ms() + (self._max_block_ms if patient else 0)
        ticket: Ticket | None = None
        try:
            while True:
                with self._driver.lock:
                    got = append(ticket)
                if isinstance(got, Ticket):
                    ticket = got
                    self._await_memory(ticket, topic, deadline_ms)
                elif got is None:
                    self.await_topic(topic, partition, deadline_ms)
                else:
                    self._have_it_sent()
                    return got
        finally:
            if ticket is not None:
                with self._driver.lock:
                    self._core.pool.cancel(ticket)
                # What it gave back may be what another thread waits for, and that one may be asleep in select().
                self._driver.wakeup()

    def await_topic(self, topic: str, partition: int | None, deadline_ms: int = NEVER_MS) -> TopicQueues:
        """Wait until metadata knows a topic, and the partition."""
        timeout_ms = min(self._max_block_ms, max(deadline_ms - self._driver.now_ms(), 0))
        flow = self._core.await_topic(topic, partition, self.limit)
        return self._driver.run(flow, timeout_ms / 1000, f"metadata of topic {topic!r}")

    def _await_memory(self, ticket: Ticket, topic: str, deadline_ms: int) -> None:
        self._have_it_sent()
        timeout_ms = max(deadline_ms - self._driver.now_ms(), 0)
        try:
            self._driver.wait(ticket.promise, timeout_ms / 1000, f"room in buffer.memory for topic {topic!r}")
        except BootstrapError:
            raise
        except TimeoutError:
            raise BufferExhaustedError(
                f"topic {topic!r}: {ticket.size} bytes of buffer.memory={self._core.pool.total} did not become free within {self.limit}; "
                "records come faster than the brokers take them; persisted: no"
            ) from None

    def _have_it_sent(self) -> None:
        """A batch is full, or a new one was begun: compress here, where the time is the sender's own, and have the engine look."""
        while self._core.accumulator.full:
            with DeferredSignals():
                self._seal_one()
        self._driver.wakeup()

    def _seal_one(self) -> None:
        with self._driver.lock:
            batch = self._core.accumulator.claim_full()
        if batch is None:
            return
        try:
            batch.seal()
        finally:
            with self._driver.lock:
                self._core.accumulator.sealed(batch)

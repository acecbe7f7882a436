"""consumer.acks() for tasks: records one by one, to be acknowledged in any order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from levada.aio.driver import Driver
from levada.api.consumer.acking import Acking
from levada.base.flow import CallerFlow
from levada.base.unsupported_names import asynchronous
from levada.consumer.acks.record import AckRecord
from levada.errors import ConcurrentUseError
from levada.types import K, V

T = TypeVar("T")


@asynchronous
class Acks(Generic[K, V]):
    """The context manager that consumer.acks() returns. One task takes records; any task and any thread may acknowledge them."""

    def __init__(self, consumer: object, driver: Driver, sole: AbstractContextManager[None], acking: Acking) -> None:
        self._consumer = consumer
        """A reference, so that the consumer is not dropped before its records are done."""
        self._driver = driver
        self._sole = sole
        self._acking = acking

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[AckRecord[K, V]]:
        """Return records to process, waiting up to `timeout` seconds for the first one (None: without limit); none when the time is over.

        It returns as many as `lanes` and `ordering` allow, at most max_records, by default max.poll.records or half of max_unacked,
        whichever is smaller. Raises what poll() of the consumer raises, the error that was passed to a record's fail(), ProcessingError for
        a record that could not be written to the dead-letter topic, and IllegalStateError after close().
        """
        found: list[AckRecord[Any, Any]] = await self._call(self._acking.poll(timeout, max_records))
        return found

    async def __aiter__(self) -> AsyncIterator[AckRecord[K, V]]:
        """Yield record after record, and keep the consumer in its group meanwhile. Raises as poll() does.

        It ends where a loop over the consumer ends (stop.at.end, consumer.timeout.ms, ends given to assign()), once every record is done.
        """
        loop = self._acking.new_loop()
        try:
            while (hand := await self._call(self._acking.next_hand(loop))) is not None:
                try:
                    for record in hand.coming:
                        yield record
                        if hand.is_over or self._acking.is_due:
                            break
                finally:
                    if not hand.is_over:
                        self._acking.end_hand()
        finally:
            loop.leave()

    async def wait_empty(self, timeout: float | None = None) -> None:
        """Wait until the program has called ack(), nack(), reject() or fail() of every record that it has, and rejected records are in the
        dead-letter topic. No records are returned meanwhile.

        The consumer stays in its group, and commits. timeout: seconds; None waits without limit. Raises TimeoutError, WakeupError, and what
        poll() of the consumer raises.
        """
        await self._call(self._acking.wait_empty(timeout))

    @property
    def at_work(self) -> int:
        """The number of records that the program has not acknowledged yet, including those on their way to the dead-letter topic.

        Reading it carries out the acknowledgements made so far, and sends rejected records to the dead-letter topic.
        """
        self._acking.settle()
        return self._acking.unacked.at_work

    @property
    def is_idle(self) -> bool:
        """Whether `at_work` is 0. False also once a record has exceeded handler_timeout, because its handler may still be running."""
        return not self.at_work and not self._acking.unacked.has_overdue

    async def close(self) -> None:
        """Give up the records that are not done, without waiting for them; positions go back to the first of them. Idempotent.

        Nothing is committed here, and these records are delivered again. ack(), nack(), reject() and fail() have no effect on them any
        more.
        """
        with self._sole:
            self._acking.close()

    async def _call(self, flow: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._acking.next_call
        try:
            with self._sole:
                return await self._driver.call(flow)
        except ConcurrentUseError:
            raise
        except BaseException:
            self._acking.take_back(call)
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

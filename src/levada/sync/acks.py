"""consumer.acks() for threads: records one by one, to be acknowledged in any order. consumer.process() gives each to an executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from levada.api.consumer.acking import Acking
from levada.base.flow import CallerFlow
from levada.base.signals import DeferredSignals
from levada.consumer.acks.record import AckRecord
from levada.errors import ConcurrentUseError, KafkaError
from levada.logs import Log
from levada.sync.driver import Driver
from levada.types import K, V

if TYPE_CHECKING:
    # It loads executors and processes, which take as long to load as all of the consumer.
    from levada.api.consumer.processing import Outcomes, Submit

T = TypeVar("T")


class Acks(Generic[K, V]):
    """The context manager that consumer.acks() returns. The consumer's thread takes records; any thread may acknowledge them."""

    def __init__(self, consumer: object, driver: Driver, sole: AbstractContextManager[None], acking: Acking) -> None:
        self._consumer = consumer
        """A reference, so that the consumer is not dropped before its records are done."""
        self._driver = driver
        self._sole = sole
        self._acking = acking

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[AckRecord[K, V]]:
        """Return records to process, waiting up to `timeout` seconds for the first one (None: without limit); none when the time is over.

        It returns as many as `lanes` and `ordering` allow, at most max_records, by default max.poll.records or half of max_unacked,
        whichever is smaller. Raises what poll() of the consumer raises, the error that was passed to a record's fail(), ProcessingError for
        a record that could not be written to the dead-letter topic, and IllegalStateError after close().
        """
        found: list[AckRecord[Any, Any]] = self._call(self._acking.poll(timeout, max_records))
        return found

    def __iter__(self) -> Iterator[AckRecord[K, V]]:
        """Yield record after record, and keep the consumer in its group meanwhile. Raises as poll() does.

        It ends where a loop over the consumer ends (stop.at.end, consumer.timeout.ms, ends given to assign()), once every record is done.
        """
        loop = self._acking.new_loop()
        try:
            while (hand := self._call(self._acking.next_hand(loop))) is not None:
                try:
                    for record in hand.coming:
                        yield record
                        if hand.is_over or self._acking.is_due:
                            break
                finally:
                    if not hand.is_over:
                        with self._sole:
                            self._acking.end_hand()
        finally:
            loop.leave()

    def wait_empty(self, timeout: float | None = None) -> None:
        """Wait until the program has called ack(), nack(), reject() or fail() of every record that it has, and rejected records are in the
        dead-letter topic. No records are returned meanwhile.

        The consumer stays in its group, and commits. timeout: seconds; None waits without limit. Raises TimeoutError, WakeupError, and what
        poll() of the consumer raises.
        """
        self._call(self._acking.wait_empty(timeout))

    @property
    def at_work(self) -> int:
        """The number of records that the program has not acknowledged yet, including those on their way to the dead-letter topic.

        Reading it carries out the acknowledgements made so far, and sends rejected records to the dead-letter topic.
        """
        with self._sole:
            self._acking.settle()
            return self._acking.unacked.at_work

    @property
    def is_idle(self) -> bool:
        """Whether `at_work` is 0. False also once a record has exceeded handler_timeout, because its handler may still be running."""
        return not self.at_work and not self._acking.unacked.has_overdue

    def close(self) -> None:
        """Give up the records that are not done, without waiting for them; positions go back to the first of them. Idempotent.

        Nothing is committed here, and these records are delivered again. ack(), nack(), reject() and fail() have no effect on them any
        more.
        """
        with self._sole, DeferredSignals():
            self._acking.close()

    def _call(self, flow: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._acking.next_call
        try:
            with self._sole:
                return self._driver.call(flow)
        except ConcurrentUseError:
            raise
        except BaseException:
            with DeferredSignals():
                self._acking.take_back(call)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def process(acks: Acks[Any, Any], submit: Submit, outcomes: Outcomes, finish_s: float, log: Log) -> None:
    """Submit every record to an executor until the loop ends. finish_s: for how many seconds to wait for running handlers after an error or
    wakeup().
    """
    record = submitted = None
    try:
        for record in acks:
            # A signal handler that raises in the middle of submit() would leave a running handler whose outcome is lost.
            with DeferredSignals():
                submit(record).add_done_callback(partial(outcomes.follow, record))
                submitted = record
    except BaseException:
        if record is not None and record is not submitted:
            record.nack()
        _finish(acks, finish_s, log)
        raise


def _finish(acks: Acks[Any, Any], finish_s: float, log: Log) -> None:
    try:
        acks.wait_empty(finish_s)
    except KafkaError as error:
        # Why process() ends is another error, which its caller gets.
        log.warning("process() ends, and does not wait any longer for handlers that run; their records are read again: %s", error)

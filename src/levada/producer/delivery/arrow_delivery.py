"""The result of send_arrow(): the outcome of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from levada.base.promise import Promise
from levada.errors import InvalidRecordError, KafkaError, RecordTooLargeError, TimeoutError, not_written
from levada.producer.append.producer_batch import Ack
from levada.producer.delivery.delivery import Outcome, mark_under_way
from levada.producer.delivery.joint_ack import settle_together

if TYPE_CHECKING:
    import pyarrow as pa

    from levada.record.columnar import RejectedRow

WaitForAll = Callable[[Sequence[Promise[Any]], float | None, str], object]
NOT_SENT = -1


class ArrowReport(NamedTuple):
    """The numbers of rows of a call of send_arrow() or send_sealed().

    rows: all rows. failed: the rows with an error; some of these may have been written.
    """

    rows: int
    failed: int


class ArrowOutcomes:
    """The outcome of every row of one call of send_arrow() or send_sealed(), without methods that wait.

    first_error(), counts() and table() note that the program has read all errors.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._batches: list[tuple[Outcome, int, Sequence[int]]] = []
        self._rejected: list[tuple[int, KafkaError]] = []
        self._asked = False

    def add(self, outcome: Outcome, first: int, rows: Sequence[int]) -> None:
        """Add the outcome of rows: their batch or a FailedSend. first: the index of the first row in `outcome`. rows: row numbers."""
        self._batches.append((outcome, first, rows))

    def reject(self, rows: Iterable[RejectedRow]) -> KafkaError | None:
        """Add rows that cannot be sent, as (row number, reason). Return the error of the first of them; None without any."""
        first: KafkaError | None = None
        for row, reason in rows:
            kind = RecordTooLargeError if "max.request.size" in reason else InvalidRecordError
            error = kind(f"row {row} for topic {self._topic!r}: {reason}")
            self._rejected.append((row, not_written(error)))
            first = first or error
        return first

    def settle_ack(self, ack: Ack) -> None:
        """Acknowledge an AckBuffer sequence once all rows are written, or fail it with the error of the first failed row.

        Called under the engine's lock.
        """
        settle_together(ack, self.promises, self.first_error)

    @property
    def is_empty(self) -> bool:
        """Whether add() was not called yet. Rejected rows do not count."""
        return not self._batches

    @property
    def unasked(self) -> int:
        """How many rejected rows have an error that the program has not read. Each batch counts its own failed rows."""
        return 0 if self._asked else len(self._rejected)

    @property
    def error(self) -> KafkaError | None:
        """The error of the first rejected row; None without one."""
        return self._rejected[0][1] if self._rejected else None

    def done(self) -> bool:
        """Whether every row was acknowledged or has failed. Never waits."""
        return all(outcome.promise.done for outcome, _, _ in self._batches)

    @property
    def promises(self) -> list[Promise[Any]]:
        """The promises that are settled when all rows are done."""
        return [outcome.promise for outcome, _, _ in self._batches]

    @property
    def waits_for(self) -> str:
        """The event that result() waits for, as text for a TimeoutError."""
        return f"{self._topic}: the acknowledgement of all rows"

    def first_error(self) -> KafkaError | None:
        """Return the error of the failed row with the lowest number; None if all rows were written."""
        first = min(self._errors(), key=lambda failed: failed[0], default=None)
        return None if first is None else first[1]

    def failure(self) -> tuple[int, KafkaError | None]:
        """Return the number of rows, and the error of a failed row; None if no row has failed. The error does not count as read."""
        count = sum(len(rows) for _, _, rows in self._batches) + len(self._rejected)
        places = ((outcome, index) for outcome, start, rows in self._batches if not outcome.succeeded for index in _places(start, rows))
        failed = (outcome.failure_of(index) for outcome, index in places)
        return count, self.error or next((error for error in failed if error is not None), None)

    def counts(self) -> ArrowReport:
        """Return the numbers of rows, without waiting."""
        rows = sum(len(rows) for _, _, rows in self._batches) + len(self._rejected)
        return ArrowReport(rows, sum(1 for _ in self._errors()))

    def table(self) -> pa.RecordBatch:
        """Return a pyarrow.RecordBatch with the columns row, partition, offset and error, in the order of the rows, without waiting.

        partition: -1 for a row that was rejected before it was sent. offset: -1 for a failed row, or if the broker did not send the offset.
        error: null for a row that was written.
        """
        from levada.record.columnar import delivery_report

        return delivery_report(self._columns())

    def _errors(self) -> Iterator[tuple[int, KafkaError]]:
        self._asked = True
        yield from self._rejected
        for outcome, start, rows in self._batches:
            if not outcome.succeeded:
                errors = ((row, outcome.error_of(index)) for index, row in enumerate(rows, start))
                yield from ((row, error) for row, error in errors if error is not None)

    def _columns(self) -> Iterator[tuple[Sequence[int], int, Sequence[int], Sequence[str | None]]]:
        """Yield (row numbers, partition, offsets, errors) for each batch, and for each rejected row.

        An offset is -1 if it is not known or the row was not sent. An error is None if the row was written.
        """
        self._asked = True
        for outcome, start, rows in self._batches:
            indexes = _places(start, rows)
            if outcome.succeeded:
                first = outcome.metadata(start, NOT_SENT).offset
                offsets = range(first, first + len(rows)) if first >= 0 else [NOT_SENT] * len(rows)
                yield rows, outcome.tp.partition, offsets, [None] * len(rows)
            else:
                errors = [outcome.error_of(index) for index in indexes]
                where = [outcome.metadata(index, NOT_SENT).offset for index in indexes]
                yield rows, outcome.tp.partition, where, [None if error is None else str(error) for error in errors]
        for row, error in self._rejected:
            yield [row], NOT_SENT, [NOT_SENT], [str(error)]


def _places(start: int, rows: Sequence[int]) -> range:
    return range(start, start + len(rows))


class ArrowDelivery(ArrowOutcomes):
    """The outcome of every row of one call of send_arrow() or send_sealed(), with methods that block the calling thread until all rows are
    done.
    """

    def __init__(self, topic: str, wait_for_all: WaitForAll) -> None:
        super().__init__(topic)
        self._wait_for_all = wait_for_all

    def result(self, timeout: float | None = None) -> ArrowReport:
        """Wait for all rows and return an ArrowReport. Raises the error of the first failed row.

        timeout: seconds; None waits until all rows are done, for about delivery.timeout.ms at most. Raises TimeoutError if the time is over
        first; the rows are still being sent then.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error.with_traceback(None)
        return self.counts()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for all rows and return the error of the first failed row; None if all rows were written. timeout: as for result()."""
        self._wait(timeout)
        return self.first_error()

    def report(self, timeout: float | None = None) -> ArrowReport:
        """Wait for all rows and count them. Does not raise the errors of failed rows. timeout: as for result()."""
        self._wait(timeout)
        return self.counts()

    def to_arrow(self, timeout: float | None = None) -> pa.RecordBatch:
        """Wait for all rows and return a pyarrow.RecordBatch with the columns row, partition, offset and error, in the order of the rows.

        partition: -1 for a row that was rejected before it was sent. offset: -1 for a failed row, or if the broker did not send the offset.
        error: null for a row that was written. timeout: as for result().
        """
        self._wait(timeout)
        return self.table()

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        try:
            self._wait_for_all(self.promises, timeout, self.waits_for)
        except TimeoutError as late:
            mark_under_way(late)
            raise

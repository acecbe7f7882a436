"""A record of consumer.acks(), and its state until it is acknowledged."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

from levada.base.clock import NEVER_MS
from levada.base.text import shown
from levada.consumer.acks.lanes import Entry
from levada.consumer.acks.states import RecordEvent, RecordState
from levada.errors import IllegalStateError
from levada.types import ConsumerRecord, K, V

if TYPE_CHECKING:
    from levada.errors import RecordDeserializationError


def delay_ms(name: str, seconds: Any) -> int:
    """Return a delay of the program, in seconds, as milliseconds. Raises TypeError and ValueError for an invalid one.

    name: the parameter, for error messages.
    """
    text = f"{name} is a number of seconds, 0 or more; got {shown(seconds)}"
    if not isinstance(seconds, Real):
        raise TypeError(text)
    number: Any = seconds
    # An infinite delay would silently block the record, its lane and all later commits.
    if not 0 <= number * 1000 < NEVER_MS:
        raise ValueError(text)
    return int(number * 1000)


class Reports(Protocol):
    """Takes what the program reports about records, from any thread: the only part of UnackedRecords that a record uses."""

    @property
    def may_reject(self) -> bool:
        """Whether rejected records can be written to a dead-letter topic."""
        ...

    def tell(self, about: AckRecord[Any, Any], event: RecordEvent, what: Any = None) -> None:
        """Append a report about a record that was returned. The thread or task that polls carries the report out.

        what: the delay in ms after nack(), the reason of reject(), the error of fail(); else None.
        """
        ...


class AckRecord(ConsumerRecord[K, V]):
    """A record that consumer.acks() returns: a ConsumerRecord that the program acknowledges, once, from any thread or task.

    Only the first of ack(), nack(), reject() and fail() has an effect. None has an effect once the record is given up (is_given_up), or
    has exceeded the time limit. Pickling turns it into a plain ConsumerRecord.
    """

    attempt: int
    """1 when it is returned for the first time. One more after each nack(), fail() and exceeded time limit, and after each reject() whose
    dead letter could not be written.
    """
    _entry: Entry
    _turn: int
    _unacked: Reports

    @classmethod
    def of(cls, entry: Entry, unacked: Reports) -> AckRecord[Any, Any]:
        """Return the record of an entry."""
        made = tuple.__new__(cls, entry.record)
        made._entry, made._turn, made._unacked, made.attempt = entry, entry.turn, unacked, entry.attempts + 1
        return made

    @property
    def _is_out(self) -> bool:
        """Whether the program has this record now: it was returned, and no result was reported since. Only for the thread or task that
        polls.
        """
        return self._entry.state is RecordState.AT_WORK and self._entry.turn == self._turn

    def ack(self) -> None:
        """Mark the record as done: offsets may be committed past it once all records before it are done as well."""
        self._unacked.tell(self, RecordEvent.ACK)

    def nack(self, delay: float = 0.0) -> None:
        """Return the record again after `delay` seconds or later. Records of its lane wait for it; other records do not.

        Raises TypeError and ValueError unless `delay` is a number from 0 on.
        """
        self._unacked.tell(self, RecordEvent.NACK, delay_ms("delay", delay))

    def reject(self, reason: BaseException | str = "") -> None:
        """Write the record to the dead-letter topic instead of processing it. It counts as done once the dead letter is acknowledged.

        reason: for the headers of the dead letter. Raises IllegalStateError without a dead-letter topic.
        """
        if not self._unacked.may_reject:
            raise IllegalStateError("there is no dead-letter topic that this record could be written to; give acks() dead_letter=")
        self._unacked.tell(self, RecordEvent.REJECT, reason)

    def fail(self, error: BaseException) -> None:
        """End the loop over the records with this error; a call of poll() raises it. The record is not done, and is returned again by the
        next calls or if the loop is continued.

        If several records fail before the error is raised, only the first error is raised. Raises TypeError if `error` is not an exception.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"a record fails with an exception, got {shown(error)}")
        self._unacked.tell(self, RecordEvent.FAIL, error)

    @property
    def is_given_up(self) -> bool:
        """Whether the record was given up, so that ack() has no effect: its partition was revoked, its position was moved (by a seek, or
        after log truncation), or acks() was closed. The record is delivered again, after a revocation perhaps to another member, unless the
        position was moved past it.
        """
        return self._entry.state is RecordState.GIVEN_UP

    @property
    def raw_key(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._entry.record.raw_key

    @property
    def raw_value(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._entry.record.raw_value

    @property
    def decode_error(self) -> RecordDeserializationError | None:
        """See ConsumerRecord."""
        return self._entry.record.decode_error

    def _replace(self, **changes: Any) -> AckRecord[K, V]:
        """Return a changed copy that acknowledges the same record."""
        made = super()._replace(**changes)
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ConsumerRecord, tuple(self)

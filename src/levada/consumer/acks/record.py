"""A record that a program acknowledges, and what is known of it until then."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import TYPE_CHECKING, Any

from levada.base.clock import NEVER_MS
from levada.base.shown import shown
from levada.consumer.acks.states import RecordEvent, RecordState
from levada.errors import IllegalStateError
from levada.types import AnyRecord, ConsumerRecord, K, V

if TYPE_CHECKING:
    from levada.consumer.acks.lanes import PartitionLanes
    from levada.consumer.acks.unacked import UnackedRecords
    from levada.errors import RecordDeserializationError


def delay_ms(name: str, seconds: Any) -> int:
    """Return a delay in milliseconds. Raises TypeError and ValueError for what is none."""
    text = f"{name} is a number of seconds, 0 or more; got {shown(seconds)}"
    if not isinstance(seconds, Real):
        raise TypeError(text)
    number: Any = seconds
    # An endless delay would hold up the record, its lane and the commits behind it without a word.
    if not 0 <= number * 1000 < NEVER_MS:
        raise ValueError(text)
    return int(number * 1000)


class Entry:
    """One record from the poll that brought it until it is done. sequence: counts those of its partition.

    attempts: how often the program has said something of it. turn: counts how often it was handed out, so that what is said of an earlier
    time is known.
    """

    __slots__ = ("attempts", "lane", "lanes", "reason", "record", "sequence", "state", "turn")

    def __init__(self, record: AnyRecord, lanes: PartitionLanes, lane: Hashable, sequence: int) -> None:
        self.record = record
        self.lanes = lanes
        self.lane = lane
        self.sequence = sequence
        self.state = RecordState.WAITING
        self.attempts = 0
        self.turn = 0
        self.reason: BaseException | str = ""
        """Why it was rejected."""


class AckRecord(ConsumerRecord[K, V]):
    """A record that consumer.acks() hands out: a ConsumerRecord with what the program says of it, once, from any thread or task.

    Only the first of ack(), nack(), reject() and fail() has an effect; none has one when the partition was given up meanwhile. Pickled,
    it becomes a plain ConsumerRecord.
    """

    attempt: int
    """1 when it is handed out for the first time, one more after each nack()."""
    _entry: Entry
    _turn: int
    _unacked: UnackedRecords

    @classmethod
    def of(cls, entry: Entry, unacked: UnackedRecords) -> AckRecord[Any, Any]:
        """Return what is handed out of an entry."""
        made = tuple.__new__(cls, entry.record)
        made._entry, made._turn, made._unacked, made.attempt = entry, entry.turn, unacked, entry.attempts + 1
        return made

    @property
    def _is_out(self) -> bool:
        """Whether this is what the program has now. For the thread or task that polls."""
        return self._entry.state is RecordState.AT_WORK and self._entry.turn == self._turn

    def ack(self) -> None:
        """It is done: offsets may be committed past it, once all records before it are done as well."""
        self._unacked.tell(self, RecordEvent.ACK)

    def nack(self, delay: float = 0.0) -> None:
        """It is to be handed out again, after `delay` seconds at the earliest. Records of its lane wait behind it, others do not."""
        self._unacked.tell(self, RecordEvent.NACK, delay_ms("delay", delay))

    def reject(self, reason: BaseException | str = "") -> None:
        """It is not to be handed out any more: write it to the dead-letter topic, and count it as done once it is acknowledged there.

        reason: for the headers of what is written. Raises IllegalStateError without a dead-letter topic.
        """
        if not self._unacked.may_reject:
            raise IllegalStateError("there is no dead-letter topic that this record could be written to; give acks() dead_letter=")
        self._unacked.tell(self, RecordEvent.REJECT, reason)

    def fail(self, error: BaseException) -> None:
        """The program cannot go on: whoever waits for the next records gets this error. The record is not done."""
        if not isinstance(error, BaseException):
            raise TypeError(f"a record fails with an exception, got {shown(error)}")
        self._unacked.tell(self, RecordEvent.FAIL, error)

    @property
    def is_given_up(self) -> bool:
        """Whether its partition was given up meanwhile: somebody else gets the record, and ack() has no effect."""
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
        """Return a changed record, which stands for the same one."""
        made = super()._replace(**changes)
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ConsumerRecord, tuple(self)

"""The unacknowledged records of all partitions, for consumer.acks(). Pure; the time is passed in.

The thread or task that polls owns this object: it adds records, takes those that may be returned, and applies what the program has
reported. The program reports from any thread with tell(), which only appends a note. Notes are applied in order, so the first one about a
record counts. Only the deque of notes is shared between threads.

Partitions take turns, so that one with many records does not delay the others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from levada.base.clock import NEVER_MS
from levada.base.state_table import following
from levada.consumer.acks.lanes import Entry, PartitionLanes
from levada.consumer.acks.record import AckRecord
from levada.consumer.acks.states import TRANSITIONS, RecordEvent, RecordState
from levada.consumer.positions.subscription_state import PartitionState
from levada.types import AnyRecord, TopicPartition

Ordering: TypeAlias = Literal["key", "partition", "none"]
_THE_ONE_LANE: Final = ""

LANE_OF: Final[Mapping[str, Callable[[AnyRecord], Hashable]]] = {
    "key": lambda record: record.raw_key,
    "partition": lambda record: _THE_ONE_LANE,
    "none": lambda record: None,
}
"""The lane of a record within its partition, for each value of `ordering`. A record without a key has no key lane."""


class WorkLimit(NamedTuple):
    """The time limit for processing a record, in ms. error: makes the error for a record that exceeds the limit, from the record and the
    number of the attempt.
    """

    most_ms: int
    error: Callable[[AnyRecord, int], BaseException]


class UnackedRecords:
    """The unacknowledged records of one consumer.

    max_at_work: the maximum of `at_work`; None for no limit. ordering: a key of LANE_OF. may_reject: whether there is a dead-letter topic.
    limit: the time limit for a record; None for no limit. wake: ends the wait of the thread or task that polls; called from any thread.
    """

    def __init__(
        self, *, max_at_work: int | None, ordering: str, may_reject: bool, limit: WorkLimit | None, wake: Callable[[], None]
    ) -> None:
        self.may_reject = may_reject
        self.failure: BaseException | None = None
        """The error with which the loop is to end, until it is taken. Of several errors the first one counts; the others are dropped."""
        self.is_waited_for = False
        """Whether the thread or task that polls is waiting for notes."""
        self.held: frozenset[TopicPartition] = frozenset()
        """Partitions of which no records are returned."""
        self.paused: set[TopicPartition] = set()
        """Partitions that are paused because of their unfinished records."""
        self.has_overdue = False
        """Whether a record has exceeded its time limit; the program may still be processing it."""
        self._max_at_work = max_at_work
        self._limit = limit
        self._until_ms: OrderedDict[Entry, int] = OrderedDict()
        """The deadline of each record that is with the program, with a time limit."""
        self._lane_of = LANE_OF[ordering]
        self._wake = wake
        self._is_closed = False
        self._partitions: dict[TopicPartition, PartitionLanes] = {}
        self._with_ready: dict[PartitionLanes, None] = {}
        """The partitions with records to return, in the order of their turns."""
        self._delayed: list[tuple[int, int, Entry]] = []
        self._delays = 0
        self._rejected: list[Entry] = []
        """Rejected records for the producer of dead letters."""
        self._notes: deque[tuple[Any, RecordEvent, Any]] = deque()
        self.at_work = 0
        """How many records the program has, or are on their way to the dead-letter topic."""

    # Reports of the program, from any thread

    def tell(self, about: AckRecord[Any, Any] | Entry, event: RecordEvent, what: Any = None) -> None:
        """Append a report of the program about a record, or of the producer about a rejected record. settle() carries the reports out.

        what: the delay in ms, the reason or the error that belongs to the event; else None.
        """
        if self._is_closed:
            return
        self._notes.append((about, event, what))
        if self.is_waited_for:
            self._wake()

    @property
    def has_notes(self) -> bool:
        """Whether there are reports that settle() has not carried out yet."""
        return bool(self._notes)

    # For the thread or task that polls

    def add(self, state: PartitionState, records: Iterable[AnyRecord]) -> None:
        """Add the records of one partition from a poll().

        All earlier records of the partition are given up if a record does not follow them, because the position was moved back, or if the
        partition was assigned anew.
        """
        lanes = self._partitions.get(state.tp)
        for record in records:
            if lanes is None or lanes.state is not state or not lanes.follows(record):
                self.give_up(state.tp)
                lanes = self._partitions[state.tp] = PartitionLanes(state)
            lanes.add(record, self._lane_of(record))
        if lanes is not None:
            self._note_ready(lanes)

    def take(self, limit: int, now_ms: int) -> list[AckRecord[Any, Any]]:
        """Return up to `limit` records that may be processed now."""
        if self._max_at_work is not None:
            limit = min(limit, self._max_at_work - self.at_work)
        taken: list[AckRecord[Any, Any]] = []
        while len(taken) < limit and (lanes := self._next()) is not None:
            entry = lanes.ready.popleft()
            self._note_ready(lanes)
            self._move(entry, RecordEvent.HAND_OUT)
            entry.turn += 1
            if self._limit is not None:
                self._until_ms[entry] = now_ms + self._limit.most_ms
            self._count(lanes, 1)
            taken.append(AckRecord.of(entry, self))
        return taken

    def _next(self) -> PartitionLanes | None:
        if not self.held:
            return next(iter(self._with_ready), None)
        return next((lanes for lanes in self._with_ready if lanes.tp not in self.held), None)

    def put_back(self, records: Collection[AckRecord[Any, Any]]) -> None:
        """Take back records that did not reach the program. They are returned again before all other records of their partitions."""
        for record in reversed(list(records)):
            if record._is_out:
                self._come_back(record._entry, RecordEvent.PUT_BACK)
                self._hand_out_again(record._entry)

    def settle(self, now_ms: int) -> None:
        """Carry out the reports of the program, make delayed records ready again, and fail records that have exceeded the time limit."""
        while self._notes:
            about, event, what = self._notes.popleft()
            if isinstance(about, Entry):
                self._settle_letter(about, event, what)
            elif about._is_out:
                _SETTLE[event](self, about._entry, what, now_ms)
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, entry = heappop(self._delayed)
            if entry.state is RecordState.DELAYED:
                self._move(entry, RecordEvent.DUE)
                self._hand_out_again(entry)
        while self._limit is not None and self._first_limit_ms <= now_ms:
            entry = next(iter(self._until_ms))
            self.has_overdue = True
            self._failed(entry, self._limit.error(entry.record, entry.attempts + 1), now_ms)

    @property
    def _first_limit_ms(self) -> int:
        return next(iter(self._until_ms.values()), NEVER_MS)

    def _acked(self, entry: Entry, _: object, now_ms: int) -> None:
        self._come_back(entry, RecordEvent.ACK)
        self._leave(entry)

    def _nacked(self, entry: Entry, delay_ms: int, now_ms: int) -> None:
        self._come_back(entry, RecordEvent.NACK)
        entry.attempts += 1
        # Numbered, so that records that are due at the same time keep their order.
        self._delays += 1
        heappush(self._delayed, (now_ms + delay_ms, self._delays, entry))

    def _failed(self, entry: Entry, error: BaseException, now_ms: int) -> None:
        self._come_back(entry, RecordEvent.FAIL)
        entry.attempts += 1
        self._hand_out_again(entry)
        self.failure = self.failure or error

    def _reject(self, entry: Entry, reason: BaseException | str, now_ms: int) -> None:
        self._move(entry, RecordEvent.REJECT)
        entry.attempts += 1
        entry.reason = reason
        self._rejected.append(entry)

    def _settle_letter(self, entry: Entry, event: RecordEvent, error: BaseException | None) -> None:
        if entry.state is not RecordState.REJECTED:
            return
        self._come_back(entry, event)
        if event is RecordEvent.WRITTEN:
            self._leave(entry)
        else:
            self._hand_out_again(entry)
            self.failure = self.failure or error

    def take_rejected(self) -> list[Entry]:
        """Remove and return the records to write to the dead-letter topic now. The caller reports the result of each with tell()."""
        rejected, self._rejected = self._rejected, []
        return [entry for entry in rejected if entry.state is RecordState.REJECTED]

    def give_back_rejected(self, entries: Iterable[Entry]) -> None:
        """Put back rejected records of take_rejected() that were not passed to the producer."""
        self._rejected = [*entries, *self._rejected]

    def take_failure(self) -> BaseException | None:
        """Return the error with which the loop is to end, and forget it; None if there is no error."""
        failure, self.failure = self.failure, None
        return failure

    def give_up(self, tp: TopicPartition) -> int:
        """Forget the records of a partition; return how many of them were with the program or on their way to the dead-letter topic."""
        lanes = self._partitions.pop(tp, None)
        if lanes is None:
            return 0
        for entry in lanes.unsettled.values():
            self._move(entry, RecordEvent.LOSE)
        self._with_ready.pop(lanes, None)
        self.at_work -= lanes.at_work
        return lanes.at_work

    def close(self) -> None:
        """Give up all records; later reports have no effect."""
        self._is_closed = True
        for tp in list(self._partitions):
            self.give_up(tp)
        self._notes.clear()

    # Queries

    def __len__(self) -> int:
        """Return the number of records that are not done."""
        return sum(len(lanes.unsettled) for lanes in list(self._partitions.values()))

    @property
    def partitions(self) -> list[PartitionLanes]:
        """The partitions that had records and were not given up since."""
        return list(self._partitions.values())

    def partition(self, tp: TopicPartition) -> PartitionLanes | None:
        """Return the records of a partition; None if it had none, or if they were given up."""
        return self._partitions.get(tp)

    def at_work_of(self, partitions: Iterable[TopicPartition]) -> int:
        """Return how many records of these partitions are with the program, or on their way to the dead-letter topic."""
        return sum(lanes.at_work for tp in partitions if (lanes := self._partitions.get(tp)) is not None)

    @property
    def has_ready(self) -> bool:
        """Whether a record can be returned, apart from max_at_work. Records of held partitions do not count."""
        return self._next() is not None

    @property
    def may_take(self) -> bool:
        """Whether take() would return something."""
        return self.has_ready and (self._max_at_work is None or self.at_work < self._max_at_work)

    @property
    def due_ms(self) -> int:
        """The time, in ms, at which the next delay or time limit of a record ends, so that settle() has to be called; NEVER_MS if there is
        none.
        """
        delayed_ms = self._delayed[0][0] if self._delayed else NEVER_MS
        return min(delayed_ms, self._first_limit_ms)

    def oldest(self, state: PartitionState) -> AnyRecord | None:
        """Return the first record of an assigned partition that is not done; no commit of positions passes it. None if all are done."""
        lanes = self._partitions.get(state.tp)
        return None if lanes is None or lanes.state is not state else lanes.oldest

    def pauses(self, state: PartitionState) -> AnyRecord | None:
        """If an assigned partition is paused because of its unfinished records, return the first of them; else None."""
        return self.oldest(state) if state.tp in self.paused else None

    # Steps

    def _come_back(self, entry: Entry, event: RecordEvent) -> None:
        """Count a record as no longer with the program. event: the reason."""
        self._move(entry, event)
        self._count(entry.lanes, -1)

    def _count(self, lanes: PartitionLanes, change: int) -> None:
        lanes.at_work += change
        self.at_work += change

    def _leave(self, entry: Entry) -> None:
        entry.lanes.leave(entry)
        self._note_ready(entry.lanes)

    def _hand_out_again(self, entry: Entry) -> None:
        entry.lanes.again(entry)
        self._note_ready(entry.lanes)

    def _note_ready(self, lanes: PartitionLanes) -> None:
        """Move a partition behind all others in the order in which records are returned; remove it if it has no ready records."""
        self._with_ready.pop(lanes, None)
        if lanes.ready:
            self._with_ready[lanes] = None

    def _move(self, entry: Entry, event: RecordEvent) -> None:
        entry.state = following(TRANSITIONS, entry.state, event, "a record")
        if self._limit is not None and entry.state is not RecordState.AT_WORK:
            self._until_ms.pop(entry, None)


_SETTLE: Final[Mapping[RecordEvent, Callable[[UnackedRecords, Entry, Any, int], None]]] = {
    RecordEvent.ACK: UnackedRecords._acked,
    RecordEvent.NACK: UnackedRecords._nacked,
    RecordEvent.REJECT: UnackedRecords._reject,
    RecordEvent.FAIL: UnackedRecords._failed,
}

"""The records that a program works on and has not acknowledged, of all partitions: pure, and told the time.

The thread or task that polls owns this: it adds what a poll brought, takes what may be handed out, and settles what the program has said.
The program says it from any thread, by tell(), which only leaves a note; the notes are read in their order, so the first one about a
record counts. Nothing here is ever seen by two threads but the deque of notes.

Partitions take turns, so that one with many records does not hold up the others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from levada.base.clock import NEVER_MS
from levada.consumer.acks.lanes import PartitionLanes
from levada.consumer.acks.record import AckRecord, Entry
from levada.consumer.acks.states import TRANSITIONS, RecordEvent, RecordState
from levada.consumer.positions.subscription_state import PartitionState
from levada.consumer.transitions import following
from levada.types import AnyRecord, TopicPartition

Ordering: TypeAlias = Literal["key", "partition", "none"]
_THE_ONE_LANE: Final = ""

LANE_OF: Final[Mapping[str, Callable[[AnyRecord], Hashable]]] = {
    "key": lambda record: record.raw_key,
    "partition": lambda record: _THE_ONE_LANE,
    "none": lambda record: None,
}
"""In which lane of its partition a record is, by what is kept in order. A record without a key has none."""


class WorkLimit(NamedTuple):
    """How long the program may have a record. error: makes the error with which the record fails then, given its attempt."""

    most_ms: int
    error: Callable[[AnyRecord, int], BaseException]


class UnackedRecords:
    """See the module's theory.

    max_at_work: how many records the program may have at a time, None for any number. ordering: a key of LANE_OF. may_reject: whether
    there is a dead-letter topic. limit: None where the program may have a record for ever. wake: ends the wait of the thread or task that
    polls; called from any thread.
    """

    def __init__(
        self, *, max_at_work: int | None, ordering: str, may_reject: bool, limit: WorkLimit | None, wake: Callable[[], None]
    ) -> None:
        self.may_reject = may_reject
        self.failure: BaseException | None = None
        """What the program cannot go on with, until it is taken."""
        self.is_waited_for = False
        """Whether the thread or task that polls waits for notes."""
        self.held: frozenset[TopicPartition] = frozenset()
        """Partitions of which nothing is handed out."""
        self.paused: set[TopicPartition] = set()
        """Partitions that are not read on meanwhile."""
        self.has_overdue = False
        """Whether the program had a record for too long; it may still work on it."""
        self._max_at_work = max_at_work
        self._limit = limit
        self._until_ms: OrderedDict[Entry, int] = OrderedDict()
        """Until when the program may have each record that it has, where that is limited."""
        self._lane_of = LANE_OF[ordering]
        self._wake = wake
        self._is_closed = False
        self._partitions: dict[TopicPartition, PartitionLanes] = {}
        self._with_ready: dict[PartitionLanes, None] = {}
        """Those that have something to hand out, in turn."""
        self._delayed: list[tuple[int, int, Entry]] = []
        self._delays = 0
        self._rejected: list[Entry] = []
        """What is to be given to the producer of dead letters."""
        self._notes: deque[tuple[Any, RecordEvent, Any]] = deque()
        self.at_work = 0
        """How many records the program has, or are on their way to the dead-letter topic."""

    # What the program says; from any thread

    def tell(self, about: AckRecord[Any, Any] | Entry, event: RecordEvent, what: Any = None) -> None:
        """Note what happens to a record that was handed out, or to a rejected one."""
        if self._is_closed:
            return
        self._notes.append((about, event, what))
        if self.is_waited_for:
            self._wake()

    @property
    def has_notes(self) -> bool:
        """Whether settle() has something to do."""
        return bool(self._notes)

    # What the one who polls does

    def add(self, state: PartitionState, records: Iterable[AnyRecord]) -> None:
        """Take in what a poll has brought of one partition.

        A record that does not come after those before it shows that the position was moved back, by seek() or because the log was
        truncated: all of before is given up.
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
        """Return up to `limit` records that may be worked on now."""
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
        """These did not reach the program: hand them out before all others."""
        for record in reversed(list(records)):
            if record._is_out:
                self._come_back(record._entry, RecordEvent.PUT_BACK)
                self._hand_out_again(record._entry)

    def settle(self, now_ms: int) -> None:
        """Do what the program has said, and hand out again what is due."""
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
        # Numbered: those due at the same time keep their order.
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
        """Return what is to be written to the dead-letter topic now; tell() of each what became of it."""
        rejected, self._rejected = self._rejected, []
        return [entry for entry in rejected if entry.state is RecordState.REJECTED]

    def give_back_rejected(self, entries: Iterable[Entry]) -> None:
        """The producer did not get these."""
        self._rejected = [*entries, *self._rejected]

    def take_failure(self) -> BaseException | None:
        """Return what the program cannot go on with, once."""
        failure, self.failure = self.failure, None
        return failure

    def give_up(self, tp: TopicPartition) -> int:
        """Forget the records of a partition; return how many of them the program had."""
        lanes = self._partitions.pop(tp, None)
        if lanes is None:
            return 0
        for entry in lanes.unsettled.values():
            self._move(entry, RecordEvent.LOSE)
        self._with_ready.pop(lanes, None)
        self.at_work -= lanes.at_work
        return lanes.at_work

    def close(self) -> None:
        """Give up everything; what is told from now on has no effect."""
        self._is_closed = True
        for tp in list(self._partitions):
            self.give_up(tp)
        self._notes.clear()

    # How it stands

    def __len__(self) -> int:
        """How many records are not done."""
        return sum(len(lanes.unsettled) for lanes in list(self._partitions.values()))

    @property
    def partitions(self) -> list[PartitionLanes]:
        """All partitions that records came of."""
        return list(self._partitions.values())

    def partition(self, tp: TopicPartition) -> PartitionLanes | None:
        """Return what is known of a partition, None where no record came of it."""
        return self._partitions.get(tp)

    def at_work_of(self, partitions: Iterable[TopicPartition]) -> int:
        """How many of these are of some partitions."""
        return sum(lanes.at_work for tp in partitions if (lanes := self._partitions.get(tp)) is not None)

    @property
    def has_ready(self) -> bool:
        """Whether records wait that may be handed out as far as their lanes and partitions are concerned."""
        return self._next() is not None

    @property
    def may_take(self) -> bool:
        """Whether take() would return something."""
        return self.has_ready and (self._max_at_work is None or self.at_work < self._max_at_work)

    @property
    def due_ms(self) -> int:
        """When settle() has something to do that nobody tells of."""
        delayed_ms = self._delayed[0][0] if self._delayed else NEVER_MS
        return min(delayed_ms, self._first_limit_ms)

    def oldest(self, state: PartitionState) -> AnyRecord | None:
        """Return the first record of an assigned partition that is not done: no commit may pass it. None where all are."""
        lanes = self._partitions.get(state.tp)
        return None if lanes is None or lanes.state is not state else lanes.oldest

    def pauses(self, state: PartitionState) -> AnyRecord | None:
        """Return the record for which an assigned partition is paused, None where it is not paused for one."""
        return self.oldest(state) if state.tp in self.paused else None

    # Steps

    def _come_back(self, entry: Entry, event: RecordEvent) -> None:
        """The program has a record no more."""
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
        """Give a partition the last turn, or none."""
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

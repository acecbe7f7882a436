"""The assigned partitions and their positions (SubscriptionState in Java).

Each assigned partition is in one of four states:

    INITIALIZING   its position will be the committed offset, else that of auto.offset.reset; that is not looked up yet
    AWAIT_RESET    its position is to be looked up: the beginning or the end of the log, or an offset by time
    FETCHING       it has a position
    VALIDATING     it has a position that is in question, and nothing is fetched: it has a new leader, whose log may differ from what was
                   read; or its topic was deleted and created again, and poll() raises that until the program seeks

assign() starts partitions in INITIALIZING and keeps those that stay. The first poll() looks up the committed offset, which leads to
FETCHING. Without one, or without a group, auto.offset.reset leads to AWAIT_RESET, or an error is raised that there is no position. An
answer to the look-up, and any seek(), lead to FETCHING. seek_to_beginning() and seek_to_end() lead back to AWAIT_RESET, and
seek_to_committed() to INITIALIZING; the look-up happens when the position is needed. position_validator moves partitions from FETCHING to
VALIDATING and back. Unless auto.offset.reset is "none" or the read is bounded, an invalid position (out of range, truncated, or of a
topic that was created again) leads to AWAIT_RESET, or after a truncation to FETCHING at the place where the logs begin to differ.

A partition has two offsets. `position` is the offset of the next record to be returned to the program. `fetch_offset` is ahead of it: the
next offset to fetch. Both belong to a `generation`. Every move of the position, as by a seek or a reset, begins a new generation, and
everything fetched for an older one is stale. Comparing generations replaces comparing offsets. All partitions of a consumer draw their
generations from one counter. So one number also shows which partitions were moved since a certain time, and a partition that is revoked and
assigned again differs from the one before.

Responses in flight belong to a `round`. Validation begins a new round, because answers of an earlier leader do not count any more. Records
that were read from it before stay valid.

The status changes only here, as the table STATUSES allows. It defines whether there is a position and whether it is fetched from. In
addition, a partition may be paused by the program, or faulted: an error is raised in place of the records from fetch_offset on. Neither
changes the status; both stop fetching.

No component searches all partitions for work. A component that acts on partitions is a listener: every change marks the partition for all
listeners, and a listener checks the marked partitions when it is polled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from levada.errors import IllegalStateError
from levada.types import NO_LEADER_EPOCH, UNKNOWN_OFFSET, AnyRecord, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from levada.consumer.positions.auto_offset_reset import ResetTo


OUT_OF_RANGE = "out of range"
TRUNCATED = "the log was truncated"
RECREATED = "the topic was deleted and created again"
"""Why a position became invalid."""


class PartitionStatus(Enum):
    """The status of a partition with regard to its position."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    FETCHING = "fetching"
    VALIDATING = "validating"


class StatusFacts(NamedTuple):
    """The properties of a status.

    has_position: whether the offset of the next record is known. is_fetched: whether records may be fetched. leads_to: the statuses that
    may follow.
    """

    has_position: bool
    is_fetched: bool
    leads_to: frozenset[PartitionStatus]


_SOUGHT = frozenset({PartitionStatus.INITIALIZING, PartitionStatus.AWAIT_RESET, PartitionStatus.FETCHING})
"""The statuses that a seek may lead to, from any status."""

STATUSES: Mapping[PartitionStatus, StatusFacts] = {
    PartitionStatus.INITIALIZING: StatusFacts(False, False, _SOUGHT),
    PartitionStatus.AWAIT_RESET: StatusFacts(False, False, _SOUGHT),
    PartitionStatus.FETCHING: StatusFacts(True, True, _SOUGHT | {PartitionStatus.VALIDATING}),
    PartitionStatus.VALIDATING: StatusFacts(True, False, _SOUGHT | {PartitionStatus.VALIDATING}),
}

NO_ENDS: Mapping[TopicPartition, int] = {}

Marks = dict["PartitionState", None]
"""The partitions that changed since a listener last checked, in the order of their first change."""


class Answers(Protocol):
    """A broker that partitions are fetched from. heard_ms: when it last answered for all of these partitions."""

    heard_ms: int


class Generations:
    """A counter that gives each change of a position a new number. newest: the last number that was given."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest = 0

    def next(self) -> int:
        """Return a new generation."""
        self.newest += 1
        return self.newest


class PartitionState:
    """One assigned partition. Changed only under the engine's lock; code that changes it calls mark()."""

    __slots__ = (
        "_generations",
        "asked_offset",
        "buffered",
        "bytes_per_offset",
        "done_to",
        "facts",
        "failed_attempts",
        "faulted",
        "fetch_offset",
        "generation",
        "heard_ms",
        "high_watermark",
        "largest_response",
        "last_error",
        "last_stable_offset",
        "leader_epoch",
        "listeners",
        "log_start_offset",
        "lowest",
        "origin",
        "passed",
        "paused",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset_reason",
        "reset_to",
        "retired",
        "retry_at_ms",
        "round",
        "source",
        "status",
        "stop_offset",
        "stops_for_loop",
        "topic_id",
        "topic_is_assumed",
        "tp",
        "validated_epoch",
    )

    def __init__(self, tp: TopicPartition, now_ms: int, generations: Generations, listeners: Sequence[Marks] = ()) -> None:
        self.tp = tp
        self._generations = generations
        self.listeners = listeners
        self.retired = False
        """Whether the partition is not assigned any more."""
        self.status = PartitionStatus.INITIALIZING
        self.facts = STATUSES[self.status]
        """The properties of the status. Stored, because hashing an Enum is a Python call."""
        self.generation = generations.next()
        self.round = 0
        self.position = self.fetch_offset = UNKNOWN_OFFSET
        self.done_to = UNKNOWN_OFFSET
        """The offset up to which the program is known to be done: the offset to which the position was set, or a later committed offset."""
        self.origin = UNKNOWN_OFFSET
        """The generation in which the position was set by a seek or a look-up."""
        self.lowest = UNKNOWN_OFFSET
        """The lowest offset at which reading began during this assignment."""
        self.leader_epoch = NO_LEADER_EPOCH
        self.reset_to: ResetTo | None = None
        self.asked_offset: int | None = None
        """The invalid position that is being replaced by a reset."""
        self.reset_reason = ""
        self.topic_id: UUID | None = None
        """The id of the topic that the position belongs to: a deleted topic's name may be used again."""
        self.topic_is_assumed = False
        """Whether topic_id is from metadata older than a seek, and not confirmed by a fetch since."""
        self.validated_epoch = NO_LEADER_EPOCH
        """The leader epoch in which the position is known to be valid."""
        self.stop_offset: int | None = None
        """The end of a bounded read: no record from this offset on is returned."""
        self.stops_for_loop = False
        """Whether stop_offset was set by a loop over the consumer, and not by the program."""
        self.bytes_per_offset = 0.0
        """Bytes per offset in the last fetch response; 0 before one."""
        self.largest_response = 0
        """Bytes of this partition in its largest fetch response since a slow one."""
        self.paused = False
        self.buffered = 0
        """Entries in the fetch buffer that are not used up."""
        self.passed = 0
        """How many of these a running call has used up."""
        self.faulted = False
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0
        self.heard_ms = now_ms
        self.source: Answers | None = None
        """The broker that the partition is fetched from."""
        self.failed_attempts = 0
        self.retry_at_ms = 0
        self.last_error = ""

    def mark(self) -> None:
        """Mark this partition, so that every listener checks it."""
        for marks in self.listeners:
            marks[self] = None

    @property
    def last_heard_ms(self) -> int:
        """When a broker last answered for this partition, in ms."""
        return self.heard_ms if self.source is None else max(self.heard_ms, self.source.heard_ms)

    def leave_source(self) -> None:
        """Note that this partition is no longer fetched from its broker. last_heard_ms keeps its present value."""
        self.heard_ms = self.last_heard_ms
        self.source = None

    @property
    def has_position(self) -> bool:
        """Whether the offset of the next record is known."""
        return self.facts.has_position

    @property
    def finished(self) -> bool:
        """Whether a bounded read has returned all records before its end offset."""
        return self.stop_offset is not None and self.has_position and self.position >= self.stop_offset

    @property
    def may_be_reset(self) -> bool:
        """Whether auto.offset.reset may move an invalid position. Not in a bounded read, which must return certain records or fail."""
        return self.stop_offset is None or self.stops_for_loop

    @property
    def wants_data(self) -> bool:
        """Whether more data should be fetched, apart from the amount that is buffered."""
        if self.paused or self.faulted or not self.facts.is_fetched:
            return False
        return self.stop_offset is None or self.fetch_offset < self.stop_offset

    def move_to(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Move the position to this offset, in a new generation. leader_epoch: the epoch of the record before the offset."""
        self._begin_generation()
        self._enter(PartitionStatus.FETCHING)
        self.position = self.done_to = self.fetch_offset = offset
        self.origin = self.generation
        self.lowest = offset if self.lowest == UNKNOWN_OFFSET else min(self.lowest, offset)
        self.leader_epoch = leader_epoch
        self.reset_to = self.asked_offset = None
        self.reset_reason = ""

    def move_back(self, offset: int, leader_epoch: int) -> None:
        """Set the position to the offset of a record that was returned before, or to the current position, and fetch again from there.

        Unlike move_to(), this is not a seek: done_to and origin stay as they are.
        """
        done_to, origin = self.done_to, self.origin
        self.move_to(offset, leader_epoch)
        self.done_to, self.origin = done_to, origin

    def committed(self, offset: int) -> None:
        """Note a committed offset. It has no effect if it is not after done_to, or if it is after the position, which was moved back."""
        if self.done_to < offset <= self.position:
            self.done_to = offset

    def await_reset(self, to: ResetTo, *, gave_up: int | None = None, reason: str = "") -> None:
        """Wait for a reset, in a new generation. to: the reset policy. gave_up: the invalid position; None if there was none. reason: why
        it is invalid.
        """
        self._begin_generation()
        self._enter(PartitionStatus.AWAIT_RESET)
        self.reset_to = to
        self.asked_offset = gave_up
        self.reset_reason = reason
        self.position = self.fetch_offset = UNKNOWN_OFFSET

    def await_committed(self) -> None:
        """Wait for the committed offset, in a new generation and without a position, like a newly assigned partition."""
        self._begin_generation()
        self._enter(PartitionStatus.INITIALIZING)
        self.position = self.fetch_offset = UNKNOWN_OFFSET
        self.reset_to = self.asked_offset = None
        self.reset_reason = ""

    def await_validation(self) -> None:
        """Stop fetching until the position is validated at the new leader, or moved."""
        if self.status is not PartitionStatus.VALIDATING:
            self._enter(PartitionStatus.VALIDATING)

    def validated(self, leader_epoch: int) -> None:
        """Note that the position is valid, and fetch from it again. Responses to earlier requests are ignored."""
        self._enter(PartitionStatus.FETCHING)
        self.validated_epoch = leader_epoch
        self.round += 1

    def holds_in(self, leader_epoch: int) -> None:
        """Note that the position is valid in this leader epoch."""
        self.validated_epoch = leader_epoch

    def learn_topic(self, topic_id: UUID) -> None:
        """Note the topic id that the position belongs to."""
        self.topic_id = topic_id

    def correct_topic(self, topic_id: UUID) -> None:
        """Replace the topic id that was assumed at a seek by the right one: the assumed id was out of date."""
        self.topic_id = topic_id
        self.topic_is_assumed = False
        self.validated_epoch = self.leader_epoch
        self.mark()

    def belongs_to(self, topic_id: UUID | None) -> None:
        """Note the topic id of the position, and forget its leader epochs, because they may be those of a deleted topic of the same name.

        topic_id: None if it is not known yet.
        """
        self.topic_id = topic_id
        self.topic_is_assumed = False
        self.validated_epoch = self.leader_epoch = NO_LEADER_EPOCH
        self.mark()

    def retire(self) -> None:
        """End this assignment of the partition: all data fetched for it becomes stale."""
        self.retired = True
        self._begin_generation()

    def stop_at(self, offset: int | None) -> None:
        """Set the end offset of reading; None for no end. Data that was fetched for another end is fetched again."""
        if offset == self.stop_offset:
            return
        self.stop_offset = offset
        if self.has_position:
            self.move_back(self.position, self.leader_epoch)

    def prefer(self, node_id: int | None, until_ms: int = 0) -> None:
        """Read from the replica that the leader has named, until a time; None for the leader (KIP-392)."""
        self.preferred_replica = node_id
        self.preferred_until_ms = until_ms
        self.mark()

    def advance(self, generation: int, offset: int, leader_epoch: int) -> None:
        """Advance the position past returned records, unless it was moved since this generation."""
        if generation == self.generation:
            self.position = offset
            self.leader_epoch = leader_epoch

    def heard(self, now_ms: int) -> None:
        """Note that a broker has answered for this partition, so it is not stalled."""
        self.heard_ms = now_ms
        self.failed_attempts = 0
        self.last_error = ""

    def failed(self, reason: str, retry_at_ms: int) -> None:
        """Note why the last attempt to fetch failed, and the time, in ms, of the next attempt."""
        self.failed_attempts += 1
        self.last_error = reason
        self.retry_at_ms = retry_at_ms
        self.mark()

    def _enter(self, status: PartitionStatus) -> None:
        if status not in self.facts.leads_to:
            raise IllegalStateError(f"{self.tp} cannot go from '{self.status.value}' to '{status.value}'; this is a bug in levada")
        self.status = status
        self.facts = STATUSES[status]
        self.mark()

    def _begin_generation(self) -> None:
        self.mark()
        self.generation = self._generations.next()
        self.round += 1
        self.faulted = False
        self.failed_attempts = 0
        self.retry_at_ms = 0
        self.preferred_replica = None


class SubscriptionState:
    """The assigned partitions."""

    def __init__(self) -> None:
        self.generations = Generations()
        self._states: dict[TopicPartition, PartitionState] = {}
        self._listeners: list[Marks] = []
        self._initializing: Marks = self.listen()
        self.is_bounded = False
        """Whether reading may end: after assign() with end offsets, after assign_ranges(), and during a loop with stop.at.end."""

    def listen(self) -> Marks:
        """Register a listener, and return its marks: the partitions to check, which the listener removes. Call this before the first
        assign().
        """
        marks: Marks = {}
        self._listeners.append(marks)
        return marks

    @property
    def is_marked(self) -> bool:
        """Whether a listener still has marked partitions."""
        return any(self._listeners)

    def initializing(self) -> list[PartitionState]:
        """Return the partitions that are INITIALIZING."""
        marks = self._initializing
        if not marks:
            return []
        found = [state for state in marks if state.status is PartitionStatus.INITIALIZING and not state.retired]
        marks.clear()
        marks.update(dict.fromkeys(found))
        return found

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions now assigned."""
        return frozenset(self._states)

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the assigned partitions."""
        return frozenset(tp.topic for tp in self._states)

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def find(self, tp: TopicPartition) -> PartitionState | None:
        """Return the partition's state; None if it is not assigned."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the partition's state. Raises IllegalStateError if it is not assigned."""
        state = self._states.get(tp)
        if state is None:
            raise IllegalStateError(f"{tp} is not assigned to this consumer; assign() it first")
        return state

    @property
    def is_finished(self) -> bool:
        """Whether every assigned partition has an end offset and has reached it. Also true without partitions, in a bounded read."""
        return self.is_bounded and all(state.finished for state in self)

    def assign(self, partitions: Iterable[TopicPartition], now_ms: int, ends: Mapping[TopicPartition, int] = NO_ENDS) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions, but not their end offsets.

        ends: the end offset of each bounded partition. Raises ValueError for an empty topic name or a negative partition number.
        """
        wanted = dict.fromkeys(_checked(tp) for tp in partitions)
        for tp, state in self._states.items():
            if tp not in wanted:
                state.retire()
        known, self._states = self._states, {}
        for tp in wanted:
            state = self._states[tp] = known.get(tp) or self._begin(tp, now_ms)
            state.stop_at(ends.get(tp))
            state.stops_for_loop = False
        self.is_bounded = bool(ends)

    def _begin(self, tp: TopicPartition, now_ms: int) -> PartitionState:
        state = PartitionState(tp, now_ms, self.generations, self._listeners)
        state.mark()
        return state

    def assign_ranges(self, ranges: Mapping[TopicPartition, tuple[int, int]], now_ms: int) -> None:
        """Replace the assignment: read each partition from the offset `start` to before the offset `stop`."""
        self.assign((), now_ms)
        self.assign(ranges, now_ms, {tp: stop for tp, (_, stop) in ranges.items()})
        for tp, (start, _) in ranges.items():
            self._states[tp].move_to(start)
        self.is_bounded = True

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Move the position of a partition. Raises IllegalStateError if it is not assigned, and ValueError for a negative offset.

        leader_epoch: the epoch of the record before this offset, to detect log truncation (KIP-320).
        """
        if offset < 0:
            raise ValueError(f"cannot seek {tp} to {offset}; offsets begin at 0, see seek_to_beginning and seek_to_end")
        state = self.state(tp)
        state.belongs_to(None)
        state.topic_is_assumed = True
        state.move_to(offset, leader_epoch)
        # A leader with a newer epoch will be asked to validate the position.
        state.holds_in(leader_epoch)

    def seek_to(self, partitions: Iterable[TopicPartition], to: OffsetSpec) -> None:
        """Move positions to the beginning or the end of the log, which is looked up later.

        Without partitions: those of all assigned ones. Raises IllegalStateError if a partition is not assigned.
        """
        for state in self._these_or_all(partitions):
            state.belongs_to(None)
            state.await_reset(to)

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Move positions to the committed offsets, which are looked up later.

        Without partitions: those of all assigned ones. Raises IllegalStateError if a partition is not assigned.
        """
        for state in self._these_or_all(partitions):
            state.belongs_to(None)
            state.await_committed()

    def _these_or_all(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self.state(tp) for tp in partitions] or list(self)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning and fetching records; positions and buffered records stay. Raises IllegalStateError as state() does."""
        for state in [self.state(tp) for tp in partitions]:
            state.paused = True
            state.mark()

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Resume partitions that were paused. Raises IllegalStateError as state() does."""
        for state in [self.state(tp) for tp in partitions]:
            state.paused = False
            state.heard_ms = now_ms
            state.mark()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are paused."""
        return frozenset(state.tp for state in self if state.paused)

    def rewind(self, records: Iterable[AnyRecord], generation: int) -> None:
        """Move positions back to records that were returned but not used. Partitions that were moved since this generation keep their
        positions.
        """
        first: dict[TopicPartition, AnyRecord] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record)
        for tp, record in first.items():
            state = self._states.get(tp)
            if state is not None and state.generation <= generation:
                state.move_back(record.offset, record.leader_epoch)


def _checked(tp: TopicPartition) -> TopicPartition:
    topic, partition = tp
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"{tp!r}: a topic is a non-empty name")
    if not isinstance(partition, int) or partition < 0:
        raise ValueError(f"{tp!r}: partitions are numbered from 0")
    return TopicPartition(topic, partition)

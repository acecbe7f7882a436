"""What is read, and from where.

Each assigned partition is in one of four states:

    INITIALIZING   it is to begin where its group has committed, else by auto.offset.reset; nobody has asked for its records yet
    AWAIT_RESET    its position is being looked up at the beginning or the end of the log
    FETCHING       it has a position
    VALIDATING     it has a position, and somebody else leads now: nothing is fetched until that log is known to hold what was read

assign() starts in INITIALIZING and keeps partitions that stay. The first poll moves INITIALIZING to AWAIT_RESET by auto.offset.reset, or
reports that there is no position. A lookup that answers, and any seek, lead to FETCHING. seek_to_beginning and seek_to_end lead back to
AWAIT_RESET, and seek_to_committed to INITIALIZING, lazily: the lookup happens when somebody needs the position. position_validator leads
from FETCHING to VALIDATING and back.

A partition has two offsets. `position` is what the caller sees: the next record to be handed out. `fetch_offset` runs ahead of it: the
next offset to ask the broker for. Both belong to a `generation`; whatever moves the position by force begins a new one, and everything
fetched for an older generation is stale. That one number replaces comparing offsets after a seek, a reset or a reassignment. All
partitions of a consumer draw from one count, so that one number also tells which of them were moved since a moment, and a partition that
is taken away and assigned again does not look like the one before.
Answers still on their way belong to a `round`: validation begins a new one, because what an earlier leader says does not count any more,
while what was read from it before stays read.

A status is entered here only, along STATUSES, and says whether there is a position and whether it is fetched from. Beside it a partition
may be paused by the caller, or faulted: an error waits for the caller in place of its next records. Neither changes the status; both keep
it from being fetched.

No component looks at all partitions to see what to do. Each one that acts on partitions is a listener: every change marks the state for
all listeners, and a listener looks at the marked states when it has its turn.
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
"""Why a position could not be kept."""


class PartitionStatus(Enum):
    """Where a partition stands on its way to a position; see the module's text."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    FETCHING = "fetching"
    VALIDATING = "validating"


class StatusFacts(NamedTuple):
    """What holds in a status. has_position: the next record's offset is known. is_fetched: records may be asked for there."""

    has_position: bool
    is_fetched: bool
    leads_to: frozenset[PartitionStatus]


_SOUGHT = frozenset({PartitionStatus.INITIALIZING, PartitionStatus.AWAIT_RESET, PartitionStatus.FETCHING})
"""Where a seek may lead, from everywhere."""

STATUSES: Mapping[PartitionStatus, StatusFacts] = {
    PartitionStatus.INITIALIZING: StatusFacts(False, False, _SOUGHT),
    PartitionStatus.AWAIT_RESET: StatusFacts(False, False, _SOUGHT),
    PartitionStatus.FETCHING: StatusFacts(True, True, _SOUGHT | {PartitionStatus.VALIDATING}),
    PartitionStatus.VALIDATING: StatusFacts(True, False, _SOUGHT | {PartitionStatus.VALIDATING}),
}

NO_ENDS: Mapping[TopicPartition, int] = {}

Marks = dict["PartitionState", None]
"""The states that changed since a listener looked, in the order in which they changed first."""


class Answers(Protocol):
    """A broker that is asked for partitions, as far as they need to know it. heard_ms: when it last answered for all of them."""

    heard_ms: int


class Generations:
    """The count that generations are drawn from. newest: the last one that was."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest = 0

    def next(self) -> int:
        """Return a generation that no partition has had."""
        self.newest += 1
        return self.newest


class PartitionState:
    """One assigned partition. Changed only under the engine's lock, and marked by whoever changes it; see mark()."""

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
        """Whether it is not assigned any more."""
        self.status = PartitionStatus.INITIALIZING
        self.facts = STATUSES[self.status]
        """What the status allows; looked up once, because hashing an Enum is a call of Python."""
        self.generation = generations.next()
        self.round = 0
        self.position = self.fetch_offset = UNKNOWN_OFFSET
        self.done_to = UNKNOWN_OFFSET
        """Up to where the program is known to be done: where the position was sought or found, or what was committed since."""
        self.origin = UNKNOWN_OFFSET
        """The generation in which the position was sought or found."""
        self.lowest = UNKNOWN_OFFSET
        """Where reading has begun in this assignment, the lowest of all such offsets."""
        self.leader_epoch = NO_LEADER_EPOCH
        self.reset_to: ResetTo | None = None
        self.asked_offset: int | None = None
        """The position that was given up, when that is why another one is looked up."""
        self.reset_reason = ""
        self.topic_id: UUID | None = None
        """The topic that the position belongs to: names are used again."""
        self.topic_is_assumed = False
        """Whether topic_id is what metadata from before a seek says, and no broker has answered a fetch since."""
        self.validated_epoch = NO_LEADER_EPOCH
        """The leader epoch whose log is known to hold what was read up to the position, or in which the position was looked up."""
        self.stop_offset: int | None = None
        """A bounded read hands out nothing at or after this offset."""
        self.stops_for_loop = False
        """Whether a loop over the consumer has set it, and not the program."""
        self.bytes_per_offset = 0.0
        """What the last answer's records took, 0 before one."""
        self.paused = False
        self.buffered = 0
        """Entries of the fetch buffer that are not done with."""
        self.passed = 0
        """How many of these are used up by a call that has not ended."""
        self.faulted = False
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0
        self.heard_ms = now_ms
        self.source: Answers | None = None
        """The broker that it is being fetched from."""
        self.failed_attempts = 0
        self.retry_at_ms = 0
        self.last_error = ""

    def mark(self) -> None:
        """Have every listener look at this partition."""
        for marks in self.listeners:
            marks[self] = None

    @property
    def last_heard_ms(self) -> int:
        """When a broker last answered for this partition."""
        return self.heard_ms if self.source is None else max(self.heard_ms, self.source.heard_ms)

    def leave_source(self) -> None:
        """It is not being fetched any more; when it was last heard of stays known."""
        self.heard_ms = self.last_heard_ms
        self.source = None

    @property
    def has_position(self) -> bool:
        """Whether the next record's offset is known."""
        return self.facts.has_position

    @property
    def finished(self) -> bool:
        """Whether a bounded read has handed out everything before its stop offset."""
        return self.stop_offset is not None and self.has_position and self.position >= self.stop_offset

    @property
    def may_be_reset(self) -> bool:
        """Whether auto.offset.reset may move a position that does not hold. A bounded read is of these records, and of no others."""
        return self.stop_offset is None or self.stops_for_loop

    @property
    def wants_data(self) -> bool:
        """Whether anything more is to be fetched for it, leaving aside what is buffered already."""
        if self.paused or self.faulted or not self.facts.is_fetched:
            return False
        return self.stop_offset is None or self.fetch_offset < self.stop_offset

    def move_to(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Begin a new generation at this offset."""
        self._begin_generation()
        self._enter(PartitionStatus.FETCHING)
        self.position = self.done_to = self.fetch_offset = offset
        self.origin = self.generation
        self.lowest = offset if self.lowest == UNKNOWN_OFFSET else min(self.lowest, offset)
        self.leader_epoch = leader_epoch
        self.reset_to = self.asked_offset = None
        self.reset_reason = ""

    def move_back(self, offset: int, leader_epoch: int) -> None:
        """Go on at an offset that was handed out, or would be next, as if nothing after it had been."""
        done_to, origin = self.done_to, self.origin
        self.move_to(offset, leader_epoch)
        self.done_to, self.origin = done_to, origin

    def committed(self, offset: int) -> None:
        """The group has committed this offset. It tells nothing where the position was sought or found anew since it was sent."""
        if self.done_to < offset <= self.position:
            self.done_to = offset

    def await_reset(self, to: ResetTo, *, gave_up: int | None = None, reason: str = "") -> None:
        """Begin a new generation without a position, which is to be found. gave_up: the position it had, for a reason."""
        self._begin_generation()
        self._enter(PartitionStatus.AWAIT_RESET)
        self.reset_to = to
        self.asked_offset = gave_up
        self.reset_reason = reason
        self.position = self.fetch_offset = UNKNOWN_OFFSET

    def await_committed(self) -> None:
        """Begin a new generation without a position, as if the partition had just been assigned."""
        self._begin_generation()
        self._enter(PartitionStatus.INITIALIZING)
        self.position = self.fetch_offset = UNKNOWN_OFFSET
        self.reset_to = self.asked_offset = None
        self.reset_reason = ""

    def await_validation(self) -> None:
        """Fetch no more until it is known whether the log of a new leader holds what was read."""
        if self.status is not PartitionStatus.VALIDATING:
            self._enter(PartitionStatus.VALIDATING)

    def validated(self, leader_epoch: int) -> None:
        """Go on at the position; answers to what was asked before count no more."""
        self._enter(PartitionStatus.FETCHING)
        self.validated_epoch = leader_epoch
        self.round += 1

    def holds_in(self, leader_epoch: int) -> None:
        """The position is one of the log as the leader of this epoch has it."""
        self.validated_epoch = leader_epoch

    def learn_topic(self, topic_id: UUID) -> None:
        """The topic that the position belongs to is this one."""
        self.topic_id = topic_id

    def correct_topic(self, topic_id: UUID) -> None:
        """The topic assumed at a seek was not there any more: the offset and the epoch that the caller gave are of this one."""
        self.topic_id = topic_id
        self.topic_is_assumed = False
        self.validated_epoch = self.leader_epoch
        self.mark()

    def belongs_to(self, topic_id: UUID | None) -> None:
        """Forget what was known of the leaders of a topic that is no more."""
        self.topic_id = topic_id
        self.topic_is_assumed = False
        self.validated_epoch = self.leader_epoch = NO_LEADER_EPOCH
        self.mark()

    def retire(self) -> None:
        """Make everything fetched for this assignment stale."""
        self.retired = True
        self._begin_generation()

    def stop_at(self, offset: int | None) -> None:
        """Read up to this offset, or without an end. What was fetched for another end is fetched again."""
        if offset == self.stop_offset:
            return
        self.stop_offset = offset
        if self.has_position:
            self.move_back(self.position, self.leader_epoch)

    def prefer(self, node_id: int | None, until_ms: int = 0) -> None:
        """Read from this replica for a while, as the leader said; None for the leader itself (KIP-392)."""
        self.preferred_replica = node_id
        self.preferred_until_ms = until_ms
        self.mark()

    def advance(self, generation: int, offset: int, leader_epoch: int) -> None:
        """Record what was handed out, unless the position was moved by force meanwhile."""
        if generation == self.generation:
            self.position = offset
            self.leader_epoch = leader_epoch

    def heard(self, now_ms: int) -> None:
        """Note that a broker answered for this partition, so it is not stalled."""
        self.heard_ms = now_ms
        self.failed_attempts = 0
        self.last_error = ""

    def failed(self, reason: str, retry_at_ms: int) -> None:
        """Note why the last attempt brought nothing, and when to try again."""
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
        """Whether a partition has an end, or had one when partitions were assigned last."""

    def listen(self) -> Marks:
        """Return marks of a new listener, who empties them as it looks. All listeners come before the first partition."""
        marks: Marks = {}
        self._listeners.append(marks)
        return marks

    @property
    def is_marked(self) -> bool:
        """Whether a listener has yet to look at a partition."""
        return any(self._listeners)

    def initializing(self) -> list[PartitionState]:
        """Return the partitions whose records somebody asks for the first time."""
        marks = self._initializing
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
        """Return the partition's state, None when it is not assigned."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the partition's state; IllegalStateError when it is not assigned."""
        state = self._states.get(tp)
        if state is None:
            raise IllegalStateError(f"{tp} is not assigned to this consumer; assign() it first")
        return state

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to be read: every partition has an end and is there."""
        return self.is_bounded and all(state.finished for state in self)

    def assign(self, partitions: Iterable[TopicPartition], now_ms: int, ends: Mapping[TopicPartition, int] = NO_ENDS) -> None:
        """Replace the assignment; partitions that stay keep their positions. ends: the offsets to read up to, where there is one."""
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
        """Replace the assignment by bounded reads: [start, stop) of each partition, begun afresh."""
        self.assign((), now_ms)
        self.assign(ranges, now_ms, {tp: stop for tp, (_, stop) in ranges.items()})
        for tp, (start, _) in ranges.items():
            self._states[tp].move_to(start)
        self.is_bounded = True

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Move a position; it takes effect with the next poll."""
        if offset < 0:
            raise ValueError(f"cannot seek {tp} to {offset}; offsets begin at 0, see seek_to_beginning and seek_to_end")
        state = self.state(tp)
        state.belongs_to(None)
        state.topic_is_assumed = True
        state.move_to(offset, leader_epoch)
        # A leader elected after that epoch is asked whether its log has what was read.
        state.holds_in(leader_epoch)

    def seek_to(self, partitions: Iterable[TopicPartition], to: OffsetSpec) -> None:
        """Ask for the position to be looked up; no partitions means all."""
        for state in self._these_or_all(partitions):
            state.belongs_to(None)
            state.await_reset(to)

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask for the positions that a group has committed to be looked up; no partitions means all."""
        for state in self._these_or_all(partitions):
            state.belongs_to(None)
            state.await_committed()

    def _these_or_all(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self.state(tp) for tp in partitions] or list(self)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop handing out and fetching, keeping positions and what is buffered."""
        for state in [self.state(tp) for tp in partitions]:
            state.paused = True
            state.mark()

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Go on where pause() stopped."""
        for state in [self.state(tp) for tp in partitions]:
            state.paused = False
            state.heard_ms = now_ms
            state.mark()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are paused."""
        return frozenset(state.tp for state in self if state.paused)

    def rewind(self, records: Iterable[AnyRecord], generation: int) -> None:
        """Take back records that were handed out but not used, of partitions that were not moved by force since this generation."""
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

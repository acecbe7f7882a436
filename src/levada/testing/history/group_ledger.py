"""Index of a history's events of consumer groups: which member had which partition, what it read, and which offsets were committed.

The order of the events counts, not their times, because in virtual time a group does many things in the same millisecond. So all members of
a group have to write to one file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from levada.testing.history.events import UNKNOWN, Event, Found, Op, Type
from levada.types import TopicPartition


class Read(NamedTuple):
    """A record that a member got. at: the number of the event in the history. process: the number of the member's process."""

    at: int
    process: int
    found: Found


@dataclass(slots=True)
class Tenure:
    """A period in which one member has one partition. begun, ended: the numbers of the events at its beginning and end; ended is -1 while
    the member still has the partition.
    """

    process: int
    group: str
    tp: TopicPartition
    begun: int
    ended: int = UNKNOWN
    reads: list[Read] = field(default_factory=list)

    def __str__(self) -> str:
        return f"process {self.process} has {self.tp} for {self.group}"


@dataclass(slots=True)
class OffsetCommit:
    """A committed offset, or one that was found to be committed.

    begun: the number of the event with which the commit began. done: the number of the event after which the offset is certainly committed,
    -1 if there is none.
    """

    process: int
    offset: int
    begun: int
    done: int
    transaction: int = UNKNOWN

    def __str__(self) -> str:
        return f"offset {self.offset}, of process {self.process}"


class Clash(NamedTuple):
    """Two members of the same generation that have the same partition."""

    group: str
    generation: int
    tp: TopicPartition
    processes: tuple[int, int]


@dataclass(slots=True)
class _Member:
    group: str
    generation: int
    instance_id: str
    held: dict[TopicPartition, Tenure] = field(default_factory=dict)


class GroupLedger:
    """The events of consumer groups, indexed for the checks. Events are identified by their numbers in the history.

    tenures, clashes: in the order of the history. reads, commits: by group and partition. reads_without_tenure: records that members
    got from partitions that they did not have. members_since: by group, the number of the event with the first assignment of a member.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.tenures: list[Tenure] = []
        self.clashes: list[Clash] = []
        self.reads_without_tenure: list[Read] = []
        self.reads: dict[tuple[str, TopicPartition], list[Read]] = defaultdict(list)
        self.commits: dict[tuple[str, TopicPartition], list[OffsetCommit]] = defaultdict(list)
        self.members_since: dict[str, int] = {}
        self._members: dict[int, _Member] = {}
        self._open: dict[tuple[int, int], list[OffsetCommit]] = {}
        self._in_transactions: dict[int, list[OffsetCommit]] = defaultdict(list)
        takers = {
            Op.ASSIGN: self._assign,
            Op.REVOKE: self._revoke,
            Op.POLL: self._poll,
            Op.OFFSETS: self._offsets,
            Op.COMMITTED: self._look,
            Op.COMMIT: self._end_transaction,
            Op.CRASH: self._leave,
            Op.PROCESS: self._close,
        }
        for at, event in enumerate(events):
            if event.op in takers:
                takers[event.op](at, event)

    def _assign(self, at: int, event: Event) -> None:
        self.members_since.setdefault(event.group, at)
        member = self._members.setdefault(event.process, _Member(event.group, UNKNOWN, event.text))
        member.generation = event.generation
        wanted = {place.tp for place in event.places}
        for tp in member.held.keys() - wanted:
            member.held.pop(tp).ended = at
        for tp in wanted - member.held.keys():
            tenure = member.held[tp] = Tenure(event.process, event.group, tp, at)
            self.tenures.append(tenure)
        self.clashes += self._clashes_of(event.process, member)

    def _clashes_of(self, process: int, member: _Member) -> Iterator[Clash]:
        for number, other in self._members.items():
            is_same_member = number == process or (member.instance_id != "" and member.instance_id == other.instance_id)
            if not is_same_member and (other.group, other.generation) == (member.group, member.generation):
                for tp in sorted(other.held.keys() & member.held.keys()):
                    yield Clash(member.group, member.generation, tp, (number, process))

    def _revoke(self, at: int, event: Event) -> None:
        held = self._members[event.process].held if event.process in self._members else {}
        for place in event.places:
            if (tenure := held.pop(place.tp, None)) is not None:
                tenure.ended = at

    def _poll(self, at: int, event: Event) -> None:
        member = self._members.get(event.process)
        if member is None:
            return
        for found in event.read:
            read = Read(at, event.process, found)
            self.reads[member.group, found.tp].append(read)
            tenure = member.held.get(found.tp)
            if tenure is None:
                self.reads_without_tenure.append(read)
            else:
                tenure.reads.append(read)

    def _offsets(self, at: int, event: Event) -> None:
        if event.type is Type.INVOKE:
            begun = [OffsetCommit(event.process, place.offset, at, UNKNOWN, event.transaction) for place in event.places]
            for place, commit in zip(event.places, begun, strict=True):
                self.commits[event.group, place.tp].append(commit)
            self._open[event.process, event.value] = begun
            return
        for commit in self._open.pop((event.process, event.value), ()):
            if event.type is Type.OK and event.transaction == UNKNOWN:
                commit.done = at
            elif event.type is Type.OK:
                self._in_transactions[event.transaction].append(commit)

    def _look(self, at: int, event: Event) -> None:
        for place in event.places:
            self.commits[event.group, place.tp].append(OffsetCommit(event.process, place.offset, at, at))

    def _end_transaction(self, at: int, event: Event) -> None:
        if event.type is Type.OK:
            for commit in self._in_transactions.pop(event.transaction, ()):
                commit.done = at

    def _close(self, at: int, event: Event) -> None:
        if event.type is Type.OK:
            self._leave(at, event)

    def _leave(self, at: int, event: Event) -> None:
        if (member := self._members.pop(event.process, None)) is not None:
            for tenure in member.held.values():
                tenure.ended = at

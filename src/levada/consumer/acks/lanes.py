"""The unfinished records of one partition, and the lanes that keep their order.

A lane is a sequence of records that must be processed in order, such as all records of a key. The next record of a lane is returned when
the one before it is done. A record without a lane does not wait. `unsettled` is in order of offsets, and no commit of positions passes
its first record. Offsets that the program passes to commit() may.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

from levada.consumer.acks.states import RecordState
from levada.types import AnyRecord, TopicPartition

if TYPE_CHECKING:
    from levada.consumer.positions.subscription_state import PartitionState


class Entry:
    """A record, from the poll() that fetched it until it is done or given up. sequence: its number among those of its partition, from 0 on.

    attempts: how often the program has reported nack(), reject() or fail() for the record, or has exceeded the time limit. turn: how often
    the record was returned to the program. A report about an earlier turn is ignored.
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
        """Why it was rejected; "" before that."""


class PartitionLanes:
    """The unfinished records of one partition. state: the PartitionState of the assignment in which the records were read."""

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.ready: deque[Entry] = deque()
        """Records that may be returned, in order."""
        self.unsettled: dict[int, Entry] = {}
        """Records that are not done, by sequence."""
        self.at_work = 0
        """How many records are with the program, or on their way to the dead-letter topic."""
        self._lanes: dict[Hashable, deque[Entry] | None] = {}
        """The lanes with a record that is ready or with the program, each with the records that wait for it; None if no record waits."""
        self._taken = 0
        self._last_offset = -1

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.state.tp

    @property
    def span(self) -> int:
        """The number of records from the first one that is not done to the last one added, both included; 0 if all are done."""
        return self._taken - next(iter(self.unsettled), self._taken)

    @property
    def oldest(self) -> AnyRecord | None:
        """The first record that is not done; None if all are done."""
        return next(iter(self.unsettled.values())).record if self.unsettled else None

    def follows(self, record: AnyRecord) -> bool:
        """Whether the offset of a record is after the last record that was added. If not, the position was moved back."""
        return record.offset > self._last_offset

    def add(self, record: AnyRecord, lane: Hashable) -> None:
        """Add a record. It waits for the earlier records of its lane. lane: None for a record that waits for no other record."""
        entry = Entry(record, self, lane, self._taken)
        self.unsettled[self._taken] = entry
        self._taken += 1
        self._last_offset = record.offset
        if lane is None:
            self.ready.append(entry)
        elif lane not in self._lanes:
            self._lanes[lane] = None
            self.ready.append(entry)
        else:
            behind = self._lanes[lane]
            if behind is None:
                behind = self._lanes[lane] = deque()
            behind.append(entry)

    def leave(self, entry: Entry) -> None:
        """Remove a record that is done, and make the next one of its lane ready."""
        del self.unsettled[entry.sequence]
        if entry.lane is None:
            return
        behind = self._lanes[entry.lane]
        if behind:
            self.ready.append(behind.popleft())
        else:
            del self._lanes[entry.lane]

    def again(self, entry: Entry) -> None:
        """Make a record ready again, before all other records of the partition, because commits wait for this record."""
        self.ready.appendleft(entry)

"""The records of one partition that are not done, and the lanes that keep their order.

Records of a lane are handed out one after the other: the next one when the one before it is done. A record without a lane waits for nobody.
The order of `unsettled` is that of the offsets, so its first record is the one that no commit may pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

from levada.consumer.acks.record import Entry
from levada.types import AnyRecord, TopicPartition

if TYPE_CHECKING:
    from levada.consumer.positions.subscription_state import PartitionState


class PartitionLanes:
    """See the module's text. state: of the assignment that the records came with; another one is of another assignment."""

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.ready: deque[Entry] = deque()
        """What may be handed out, in turn."""
        self.unsettled: dict[int, Entry] = {}
        """What is not done, by sequence."""
        self.at_work = 0
        """How many records the program has, or are on their way to the dead-letter topic."""
        self._lanes: dict[Hashable, deque[Entry] | None] = {}
        """The lanes with a record that is ready or handed out, and what waits behind it; None for nothing."""
        self._taken = 0
        self._last_offset = -1

    @property
    def tp(self) -> TopicPartition:
        """Whose records these are."""
        return self.state.tp

    @property
    def span(self) -> int:
        """How many records were added from the first one on that is not done."""
        return self._taken - next(iter(self.unsettled), self._taken)

    @property
    def oldest(self) -> AnyRecord | None:
        """The first record that is not done; None when all are."""
        return next(iter(self.unsettled.values())).record if self.unsettled else None

    def follows(self, record: AnyRecord) -> bool:
        """Whether a record comes after those that were added; otherwise the position was moved back."""
        return record.offset > self._last_offset

    def add(self, record: AnyRecord, lane: Hashable) -> None:
        """Take a record in. lane: None for none."""
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
        """A record is done: the next one of its lane may be handed out."""
        del self.unsettled[entry.sequence]
        if entry.lane is None:
            return
        behind = self._lanes[entry.lane]
        if behind:
            self.ready.append(behind.popleft())
        else:
            del self._lanes[entry.lane]

    def again(self, entry: Entry) -> None:
        """A record is to be handed out before the others: commits wait for it."""
        self.ready.appendleft(entry)

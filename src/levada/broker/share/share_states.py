"""What is kept of share groups' partitions, for all nodes of a cluster: what Kafka's share coordinators have in __share_group_state.

A group's coordinator begins to keep a partition when the group subscribes to its topic. Where the group starts is decided when somebody
first reads from the partition, and is only stored once something has become of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol
from uuid import UUID

from levada.broker.share.share_partition import SharePartition


class ShareKey(NamedTuple):
    """A partition as one share group reads it."""

    group: str
    topic_id: UUID
    partition: int


class ShareState:
    """partition: None before somebody has read from it. is_stored: whether anything was stored.

    led_by: the node that has read from it last, and the leader epoch then.
    """

    def __init__(self) -> None:
        self.partition: SharePartition | None = None
        self.is_stored = False
        self.led_by: tuple[int, int] | None = None

    def forget_unstored(self) -> None:
        """Nobody reads any more: decide anew where to start, unless that was stored."""
        if not self.is_stored:
            self.partition = None


class Kept(Protocol):
    """Where states are written down."""

    def keep(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        """A state has changed. now_ms: since the epoch."""

    def forget(self, key: ShareKey) -> None:
        """There is no such state any more."""


class ShareStates:
    """States by key. There is one where a group has subscribed to a topic or offsets were set, even if nobody has read yet."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[ShareKey, ShareState]] = {}
        self._kept: Kept | None = None
        self._begun: Callable[[], None] = lambda: None

    def watch(self, begun: Callable[[], None]) -> None:
        """Call back before the state of a partition is kept that was not kept before."""
        self._begun = begun

    def __iter__(self) -> Iterator[str]:
        """Yield the groups of which something is kept."""
        return iter(self._groups)

    def keep_in(self, kept: Kept) -> None:
        """Write down what changes from now on."""
        self._kept = kept

    def keep_all(self, kept: Kept, now_ms: int) -> None:
        """Write down what there is, and what changes from now on. now_ms: since the epoch."""
        self._kept = kept
        for states in self._groups.values():
            for key, state in states.items():
                kept.keep(key, state, now_ms)

    def clear(self) -> None:
        """Forget everything, because the topic that holds it was deleted."""
        self._groups.clear()

    def restore(self, key: ShareKey, partition: SharePartition | None, *, is_kept: bool) -> None:
        """Take over what was written down of a state."""
        if is_kept:
            state = self.begin(key)
            state.partition, state.is_stored = partition, partition is not None
        else:
            self.forget(key)

    def find(self, key: ShareKey) -> ShareState | None:
        """Return a state, None where nothing is kept."""
        return self._groups.get(key.group, {}).get(key)

    def begin(self, key: ShareKey, now_ms: int = 0) -> ShareState:
        """Return the state of a partition that is kept from now on, if it was not before. now_ms: since the epoch."""
        states = self._groups.setdefault(key.group, {})
        if key not in states:
            self._begun()
            states[key] = ShareState()
            if self._kept is not None:
                self._kept.keep(key, states[key], now_ms)
        return states[key]

    def store(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        """Something has become of records of a partition. now_ms: since the epoch."""
        state.is_stored = True
        if self._kept is not None:
            self._kept.keep(key, state, now_ms)

    def start_at(self, key: ShareKey, offset: int, now_ms: int) -> None:
        """Let a group go on at an offset, whatever was in flight. now_ms: since the epoch."""
        state = self.begin(key, now_ms)
        state.partition = SharePartition(offset)
        self.store(key, state, now_ms)

    def of_group(self, group: str) -> dict[ShareKey, ShareState]:
        """Return what is kept of a group."""
        return dict(self._groups.get(group, {}))

    def forget(self, key: ShareKey) -> None:
        """Keep a partition no longer."""
        states = self._groups.get(key.group, {})
        if states.pop(key, None) is not None and self._kept is not None:
            self._kept.forget(key)
        if not states:
            self._groups.pop(key.group, None)

    def forget_group(self, group: str) -> None:
        """Keep nothing of a group."""
        for key in self.of_group(group):
            self.forget(key)

    def forget_topic(self, topic_id: UUID) -> None:
        """A topic was deleted."""
        for group in list(self._groups):
            for key in [key for key in self._groups[group] if key.topic_id == topic_id]:
                self.forget(key)

"""The positions of share groups in their partitions, for all nodes of a cluster: the content of Kafka's __share_group_state.

A group's coordinator creates the state of a partition when the group subscribes to its topic. The start offset is decided when a member
first reads from the partition, and stored with the first change of a record. An admin client can set it (start_at); then it is stored at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol
from uuid import UUID

from levada.broker.share.share_partition import SharePartition


class ShareKey(NamedTuple):
    """A share group and a partition that it reads."""

    group: str
    topic_id: UUID
    partition: int


class ShareState:
    """The state of a share partition.

    partition: its records, None while the start offset is not decided. is_stored: whether a record was changed or the start offset was set,
    so that `partition` is part of the stored state. led_by: the node that has last read the partition for the group, with its leader epoch;
    None if none has.
    """

    def __init__(self) -> None:
        self.partition: SharePartition | None = None
        self.is_stored = False
        self.led_by: tuple[int, int] | None = None

    def forget_unstored(self) -> None:
        """Forget the start offset if it was not stored, because no member reads the partition any more."""
        if not self.is_stored:
            self.partition = None


class ShareStorage(Protocol):
    """Stores the states of share partitions. ShareRecords implements it."""

    def keep(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        """Write a state that is new or has changed. now_ms: milliseconds since the epoch."""

    def forget(self, key: ShareKey) -> None:
        """Write that a state was deleted."""


class ShareStates:
    """The states of all share partitions of a cluster. A state is created when a group subscribes to the topic or when its
    offsets are set.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[ShareKey, ShareState]] = {}
        self._kept: ShareStorage | None = None
        self._begun: Callable[[], None] = lambda: None

    def watch(self, begun: Callable[[], None]) -> None:
        """Register a callback. It is called before a new state is created."""
        self._begun = begun

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the groups that have states."""
        return iter(self._groups)

    def keep_in(self, kept: ShareStorage) -> None:
        """Write each change of a state from now on."""
        self._kept = kept

    def keep_all(self, kept: ShareStorage, now_ms: int) -> None:
        """Write all states, and each change from now on. now_ms: milliseconds since the epoch."""
        self._kept = kept
        for states in self._groups.values():
            for key, state in states.items():
                kept.keep(key, state, now_ms)

    def clear(self) -> None:
        """Remove all states, because the topic __share_group_state was deleted."""
        self._groups.clear()

    def restore(self, key: ShareKey, partition: SharePartition | None, *, is_kept: bool) -> None:
        """Load a stored state. is_kept: False if the state was deleted after it was stored."""
        if is_kept:
            state = self.begin(key)
            state.partition, state.is_stored = partition, partition is not None
        else:
            self.forget(key)

    def find(self, key: ShareKey) -> ShareState | None:
        """Return the state of a share partition, None if it has none."""
        return self._groups.get(key.group, {}).get(key)

    def begin(self, key: ShareKey, now_ms: int = 0) -> ShareState:
        """Return the state of a share partition; if it has none, create it. now_ms: milliseconds since the epoch."""
        states = self._groups.setdefault(key.group, {})
        if key not in states:
            self._begun()
            states[key] = ShareState()
            if self._kept is not None:
                self._kept.keep(key, states[key], now_ms)
        return states[key]

    def store(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        """Write the state of a share partition whose records have changed. now_ms: milliseconds since the epoch."""
        state.is_stored = True
        if self._kept is not None:
            self._kept.keep(key, state, now_ms)

    def start_at(self, key: ShareKey, offset: int, now_ms: int) -> None:
        """Set the start offset of a group in a partition, and forget its records in flight. now_ms: milliseconds since the epoch."""
        state = self.begin(key, now_ms)
        state.partition = SharePartition(offset)
        self.store(key, state, now_ms)

    def of_group(self, group: str) -> dict[ShareKey, ShareState]:
        """Return the states of a group's share partitions, by key."""
        return dict(self._groups.get(group, {}))

    def forget(self, key: ShareKey) -> None:
        """Delete the state of a share partition."""
        states = self._groups.get(key.group, {})
        if states.pop(key, None) is not None and self._kept is not None:
            self._kept.forget(key)
        if not states:
            self._groups.pop(key.group, None)

    def forget_group(self, group: str) -> None:
        """Delete all states of a group."""
        for key in self.of_group(group):
            self.forget(key)

    def forget_topic(self, topic_id: UUID) -> None:
        """Delete the states of all share partitions of a deleted topic."""
        for group in list(self._groups):
            for key in [key for key in self._groups[group] if key.topic_id == topic_id]:
                self.forget(key)

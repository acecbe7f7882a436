"""The committed offsets of a group as positions of newly assigned partitions.

One request asks the coordinator for all of them. A committed offset becomes the position, with its leader epoch, so that log truncation is
detected. Without a committed offset auto.offset.reset decides. An answer is ignored for partitions that were moved meanwhile, as by seek(),
and for topics that were deleted and created again.

A committed leader epoch that metadata does not know yet triggers a metadata refresh. It is not stored as the newest epoch, unlike epochs
that brokers name: a program may have committed any epoch, such as one of another cluster, and the real leaders would then be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from levada.base.clock import Now
from levada.base.flow import Flow
from levada.client.driver_interface import ENDED, raise_bug
from levada.client.metadata.metadata import Metadata
from levada.client.requests.fan_out import Spawn
from levada.client.requests.group_offsets import Committed
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.positions.auto_offset_reset import ResetTo
from levada.consumer.positions.subscription_state import PartitionState, PartitionStatus
from levada.errors import KafkaError, NoOffsetForPartitionError
from levada.types import NO_LEADER_EPOCH, OffsetAndMetadata, TopicPartition


class CommittedPositions:
    """Looks up committed offsets and sets positions to them. Used under the engine's lock. reset_to: auto.offset.reset.

    fetch: requests committed offsets; with each answer it reports which of them an open transaction may change. unstable: the partitions
    that the last answer has reported so; empty once a look-up has ended.
    """

    def __init__(
        self,
        *,
        group_id: str,
        buffer: FetchBuffer,
        fetch: Callable[[Collection[TopicPartition], Callable[[list[TopicPartition]], None]], Flow[Committed]],
        metadata: Metadata,
        spawn: Spawn,
        now: Now,
        reset_to: ResetTo | None,
    ) -> None:
        self.group_id = group_id
        self.unstable: list[TopicPartition] = []
        self._buffer = buffer
        self._fetch = fetch
        self._metadata = metadata
        self._spawn = spawn
        self._now = now
        self._reset_to = reset_to
        self._asked: dict[PartitionState, int] = {}
        """The partitions that are being looked up, with their generation. A newer generation needs another look-up."""

    def put(self, states: Sequence[PartitionState]) -> None:
        """Start to look up the committed offsets of partitions, except those that are being looked up already."""
        fresh = {state: state.generation for state in states if self._asked.get(state) != state.generation}
        if fresh:
            for state in fresh:
                state.last_error = f"the coordinator of group '{self.group_id}' has not returned the committed offsets yet"
            self._asked.update(fresh)
            self._spawn.start(self._look_up_beside(fresh)).on_done(raise_bug)

    def look_up(self, states: Sequence[PartitionState]) -> Flow[None]:
        """Look up committed offsets and set the positions. A partition without a committed offset awaits a reset; if auto.offset.reset is
        "none", raises NoOffsetForPartitionError for it, after the other positions were set.
        """
        generations = {state: state.generation for state in states}
        left = list(states)
        while left:
            topic_ids = {state: self._topic_id(state) for state in left}
            try:
                found = yield from self._fetch([state.tp for state in left], self._note_unstable)
            finally:
                self.unstable = []
            # An old offset of a topic that was deleted and created again would skip records.
            left = [state for state in left if topic_ids[state] not in (None, self._topic_id(state))]
            for state in topic_ids:
                if state not in left and _awaits(state, generations[state]):
                    self._take(state, found.get(state.tp))
        if without := [str(state.tp) for state in states if _awaits(state, generations[state])]:
            raise NoOffsetForPartitionError(
                f"{', '.join(without)}: group '{self.group_id}' has committed nothing, and auto.offset.reset is 'none'; seek() first"
            )

    def _topic_id(self, state: PartitionState) -> UUID | None:
        return self._metadata.snapshot.topic_id(state.tp.topic)

    def _note_unstable(self, partitions: list[TopicPartition]) -> None:
        self.unstable = partitions

    def _look_up_beside(self, asked: Mapping[PartitionState, int]) -> Flow[None]:
        try:
            yield from self.look_up(list(asked))
        except ENDED:
            raise
        except KafkaError as error:
            # The caller gets the error once, in place of records of the first partition. Its next call asks again.
            first = next((state for state, generation in asked.items() if _awaits(state, generation)), None)
            if first is not None:
                self._buffer.add(CompletedFetch(first, first.generation, first.fetch_offset, error=error))
        finally:
            for state, generation in asked.items():
                if self._asked.get(state) == generation:
                    del self._asked[state]

    def _take(self, state: PartitionState, at: OffsetAndMetadata | None) -> None:
        state.heard(self._now.ms)
        if at is not None:
            state.move_to(at.offset, at.leader_epoch)
            state.holds_in(at.leader_epoch)
            if NO_LEADER_EPOCH < self._metadata.snapshot.leader_epoch(state.tp) < at.leader_epoch:
                self._metadata.request_update()
            self._buffer.announce()
        elif self._reset_to is not None:
            state.await_reset(self._reset_to)


def _awaits(state: PartitionState, generation: int) -> bool:
    return state.status is PartitionStatus.INITIALIZING and not state.retired and state.generation == generation

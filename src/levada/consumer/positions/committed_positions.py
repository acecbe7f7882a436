"""Where a group has read to, for partitions that were just assigned to one of its consumers.

The coordinator is asked once for all of them. What is committed becomes the position, with the leader epoch it was committed with, so that
a log truncated meanwhile is noticed. Where nothing is committed auto.offset.reset decides. An answer counts only for partitions that nobody
has moved meanwhile, and for topics that were not made again.

An epoch that metadata does not know yet has metadata refreshed. It is not remembered as the newest one, as those are that brokers name: a
program may have committed any epoch, such as one of another cluster, and leaders of older ones would not be followed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from levada.base.clock import Now
from levada.base.flow import Flow
from levada.client.host import ENDED, raise_bug
from levada.client.metadata.metadata import Metadata
from levada.client.requests.fan_out import Spawn
from levada.client.requests.group_offsets import Committed
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.positions.auto_offset_reset import ResetTo
from levada.consumer.positions.subscription_state import PartitionState, PartitionStatus
from levada.errors import KafkaError, NoOffsetForPartitionError
from levada.types import NO_LEADER_EPOCH, OffsetAndMetadata, TopicPartition


class CommittedPositions:
    """See the module's theory. Used under the engine's lock. reset_to: auto.offset.reset.

    fetch: asks for committed offsets, and tells with each answer which of them a transaction that has not ended may yet change.
    unstable: those of the last answer.
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
        """The generation of each that is being looked up; a newer one has to be asked for again."""

    def put(self, states: Sequence[PartitionState]) -> None:
        """Look up the positions of those that are not being looked up already."""
        fresh = {state: state.generation for state in states if self._asked.get(state) != state.generation}
        if fresh:
            for state in fresh:
                state.last_error = f"the coordinator of group '{self.group_id}' has not said yet what is committed"
            self._asked.update(fresh)
            self._spawn.start(self._look_up_beside(fresh)).on_done(raise_bug)

    def look_up(self, states: Sequence[PartitionState]) -> Flow[None]:
        """Give partitions their positions. Raises NoOffsetForPartitionError without one and without auto.offset.reset."""
        generations = {state: state.generation for state in states}
        left = list(states)
        while left:
            topic_ids = {state: self._topic_id(state) for state in left}
            try:
                found = yield from self._fetch([state.tp for state in left], self._note_unstable)
            finally:
                self.unstable = []
            # An offset of a topic that was made again meanwhile would skip records of the new one.
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
            # The caller sees it once, in place of the first partition's records, and its next call asks again.
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

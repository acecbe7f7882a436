"""Writes what a member of a consumer group is given, what it gives up and what it commits into a history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from levada.groups import RebalanceListener
from levada.testing.history.events import Op, Type
from levada.testing.history.recorder import Recorder, RecordingConsumer, places_of
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada.sync.consumer import KafkaConsumer


class RecordingMember(RecordingConsumer, RebalanceListener):
    """A blocking consumer that subscribes, whose partitions, polls and commits are written into a history.

    Its recorder is nobody else's, and the members of a group write to one file. Only rewind() changes positions: a record that is left out,
    or read again, is a finding. commits_revoked: commit what was handed out before partitions are given up. What enable.auto.commit
    commits is part of the history only where somebody tells recorder.committed(). It does not close the consumer.
    """

    def __init__(
        self, consumer: KafkaConsumer[Any, Any], recorder: Recorder, *, instance_id: str | None = None, commits_revoked: bool = False
    ) -> None:
        super().__init__(consumer, recorder)
        self._instance_id = instance_id or ""
        self._commits_revoked = commits_revoked

    def subscribe(self, topics: Iterable[str]) -> None:
        """As KafkaConsumer.subscribe()."""
        self._consumer.subscribe(topics, self)

    def commit(self) -> None:
        """Commit everything that was handed out. Raises as KafkaConsumer.commit()."""
        with self.recorder.offsets(self._consumer.group_metadata().group_id, self._consumer.consumed_offsets()):
            self._consumer.commit()

    def rewind(self) -> None:
        """Go on at what is committed, as after a transaction that was aborted; as KafkaConsumer.seek_to_committed()."""
        held = list(self._consumer.assignment())
        self._consumer.seek_to_committed()
        self.on_partitions_lost(held)
        self.on_partitions_assigned(held)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Tell all that the member has now."""
        group = self._consumer.group_metadata()
        held = places_of(dict.fromkeys(self._consumer.assignment(), -1))
        self.recorder.tell(
            Op.ASSIGN, Type.OK, group=group.group_id, generation=group.generation_id, places=held, text=self._instance_id
        )  # fmt: skip

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Tell what it gives up, committed before if it shall be."""
        try:
            if self._commits_revoked:
                self.commit()
        finally:
            self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Tell what it has lost."""
        self.recorder.tell(Op.REVOKE, Type.OK, places=places_of(dict.fromkeys(partitions, -1)))

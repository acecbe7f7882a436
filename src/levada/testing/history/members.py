"""Records the assignments, polls and commits of a consumer group's member in a history."""

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
    """A subscribed blocking consumer whose partitions, polls and commits are recorded in a history.

    It needs its own recorder, and all members of a group have to write to one file. Only rewind() may change positions: any other record
    that is skipped or read again is a finding. commits_revoked: whether offsets are committed before partitions are revoked. Commits of
    enable.auto.commit are in the history only if the program calls recorder.committed(). close() of the consumer is left to the caller.
    """

    def __init__(
        self, consumer: KafkaConsumer[Any, Any], recorder: Recorder, *, instance_id: str | None = None, commits_revoked: bool = False
    ) -> None:
        super().__init__(consumer, recorder)
        self._instance_id = instance_id or ""
        self._commits_revoked = commits_revoked

    def subscribe(self, topics: Iterable[str]) -> None:
        """Do what KafkaConsumer.subscribe() does."""
        self._consumer.subscribe(topics, self)

    def commit(self) -> None:
        """Commit the offsets of all records that poll() returned. Raises the errors of KafkaConsumer.commit()."""
        with self.recorder.offsets(self._consumer.group_metadata().group_id, self._consumer.consumed_offsets()):
            self._consumer.commit()

    def rewind(self) -> None:
        """Move to the committed offsets, for example after an aborted transaction, see KafkaConsumer.seek_to_committed()."""
        held = list(self._consumer.assignment())
        self._consumer.seek_to_committed()
        self.on_partitions_lost(held)
        self.on_partitions_assigned(held)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Record all partitions that the member has now."""
        group = self._consumer.group_metadata()
        held = places_of(dict.fromkeys(self._consumer.assignment(), -1))
        self.recorder.tell(
            Op.ASSIGN, Type.OK, group=group.group_id, generation=group.generation_id, places=held, text=self._instance_id
        )  # fmt: skip

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Record the revoked partitions, after a commit if commits_revoked is set."""
        try:
            if self._commits_revoked:
                self.commit()
        finally:
            self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Record the lost partitions."""
        self.recorder.tell(Op.REVOKE, Type.OK, places=places_of(dict.fromkeys(partitions, -1)))

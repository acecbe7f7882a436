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
    """A blocking consumer of a group whose partitions, polls and commits are recorded in a history.

    It needs a recorder of its own. All members of a group have to write to the same file. Positions may be changed only by rewind(); any
    other record that is skipped or read again is reported as a finding. instance_id: the consumer's group.instance.id. commits_revoked:
    whether offsets are committed before partitions are revoked. Commits of enable.auto.commit are recorded only if the program calls
    recorder.committed(). The caller has to close the consumer.
    """

    def __init__(
        self, consumer: KafkaConsumer[Any, Any], recorder: Recorder, *, instance_id: str | None = None, commits_revoked: bool = False
    ) -> None:
        super().__init__(consumer, recorder)
        self._instance_id = instance_id or ""
        self._commits_revoked = commits_revoked

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics, like KafkaConsumer.subscribe(), with this object as the rebalance listener."""
        self._consumer.subscribe(topics, self)

    def commit(self) -> None:
        """Commit the offsets of all records that poll() returned, and record the commit. Raises the errors of KafkaConsumer.commit()."""
        with self.recorder.offsets(self._consumer.group_metadata().group_id, self._consumer.consumed_offsets()):
            self._consumer.commit()

    def rewind(self) -> None:
        """Go back to the committed offsets, for example after an aborted transaction, like KafkaConsumer.seek_to_committed()."""
        held = list(self._consumer.assignment())
        self._consumer.seek_to_committed()
        self.on_partitions_lost(held)
        self.on_partitions_assigned(held)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Record all partitions that the member has after an assignment."""
        group = self._consumer.group_metadata()
        held = places_of(dict.fromkeys(self._consumer.assignment(), -1))
        self.recorder.tell(
            Op.ASSIGN, Type.OK, group=group.group_id, generation=group.generation_id, places=held, text=self._instance_id
        )  # fmt: skip

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Record the revoked partitions. If commits_revoked is True, first commit as commit() does; its errors are raised."""
        try:
            if self._commits_revoked:
                self.commit()
        finally:
            self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Record the lost partitions."""
        self.recorder.tell(Op.REVOKE, Type.OK, places=places_of(dict.fromkeys(partitions, -1)))

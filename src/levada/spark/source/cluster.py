"""The requests of Spark's driver to Kafka: which partitions exist, and their first and last offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from levada.errors import UnknownTopicOrPartitionError
from levada.spark.clients import admin_settings
from levada.spark.source.offsets import Offsets
from levada.types import OF_SPARK, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import TopicDescription


COMMIT_S = 5.0
"""How long a query waits when it commits its group's offsets. A failure is harmless: the query continues from its checkpoint."""


class Selection(NamedTuple):
    """The topics or partitions that a query reads. Exactly one field is given. pattern: selects topics by search() in their names."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    pattern: re.Pattern[str] | None = None

    @property
    def names(self) -> list[str]:
        """The topics that the options name, sorted. Empty if a pattern chooses them."""
        return sorted({*self.topics, *(tp.topic for tp in self.partitions)})

    def selects(self, tp: TopicPartition) -> bool:
        """Whether the query reads this partition. The partition need not exist."""
        if self.pattern is not None:
            return self.pattern.search(tp.topic) is not None
        return tp in self.partitions or tp.topic in self.topics


class View(NamedTuple):
    """The existing partitions that a query reads, and the ids of their topics. An id is None on brokers before 2.8."""

    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, UUID | None]

    def checked(self, selection: Selection) -> View:
        """Return the view. Raises UnknownTopicOrPartitionError if a topic or partition that the options name does not exist."""
        if missing := self.missing(selection):
            raise UnknownTopicOrPartitionError(missing_topic(missing[0]))
        if lacking := sorted(set(selection.partitions) - self.partitions):
            raise UnknownTopicOrPartitionError(f"{lacking[0]} does not exist; check the option 'assign'")
        return self

    def missing(self, selection: Selection) -> list[str]:
        """Return the topics that the options name and that do not exist."""
        return [name for name in selection.names if name not in self.topic_ids]


def missing_topic(name: str) -> str:
    """Return the error text for a topic that the options name and that does not exist."""
    advice = "create it before the query starts, or check the options 'subscribe' and 'assign'"
    return f"topic '{name}' does not exist, or may not be seen by this user; {advice}"


class Cluster(Protocol):
    """The driver's view of Kafka. Tests implement it without a network."""

    def view(self, selection: Selection) -> View:
        """Return the existing partitions of a selection."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition's log (log start offset)."""
        ...

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset after the last record that a consumer can read, by partition."""
        ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after a time, by partition. times: in ms. None if there is no such record."""
        ...

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the committed offsets of a group, once no open transaction can change them. Partitions without one are left out."""
        ...

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit offsets for a group. Raises GroupError if the group has members."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def reading_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Return a consumer's settings: the user's kafka.* options, with defaults that suit Spark.

    A query must not create a topic whose name is misspelled. This package decides where reading continues, never the consumer.
    """
    defaults = {"allow.auto.create.topics": "false", "max.partition.fetch.bytes": str(8 << 20)}
    return {**defaults, **client, "auto.offset.reset": "none"}


class KafkaCluster:
    """Sends the requests through an admin client and a consumer. The consumer fetches records only in next_times().

    client: the user's kafka.* options without this prefix.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        from levada import KafkaAdmin, KafkaConsumer  # Tasks and writers never connect here, and so do not load the clients.

        self._admin = KafkaAdmin(admin_settings(client))
        try:
            self._consumer = KafkaConsumer(reading_settings(client))
        except BaseException:
            self._admin.close()
            raise

    def view(self, selection: Selection) -> View:
        """Return the existing partitions of a selection. Assigns them to the consumer, too, which does not fetch from them here."""
        names = selection.names
        if selection.pattern is not None:
            names = [name for name in self._admin.list_topics() if selection.pattern.search(name)]
        described = self._described(names)
        found = {TopicPartition(topic.name, info.partition) for topic in described for info in topic.partitions}
        wanted = found & set(selection.partitions) if selection.partitions else found
        if wanted != self._consumer.assignment():
            # For assigned partitions the consumer keeps the leaders between two requests for offsets.
            self._consumer.assign(wanted)
        return View(frozenset(wanted), {topic.name: topic.topic_id for topic in described})

    def _described(self, names: Sequence[str]) -> list[TopicDescription]:
        """Describe topics, and leave out those that do not exist, by a second request. Raises any other error of a topic."""
        try:
            return list(self._admin.describe_topics(names).values()) if names else []
        except UnknownTopicOrPartitionError as unknown:
            for error in unknown.outcomes.values():
                if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
                    raise error from None
            return self._described([name for name, error in unknown.outcomes.items() if error is None])

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition's log (log start offset)."""
        return dict(self._consumer.beginning_offsets(list(partitions)))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset after the last record that a consumer can read, by partition."""
        return dict(self._consumer.end_offsets(list(partitions)))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after a time, by partition. times: in ms. None if there is no such record."""
        found = self._consumer.offsets_for_times(times)
        return {tp: None if at is None else at.offset for tp, at in found.items()}

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the committed offsets of a group, once no open transaction can change them. Partitions without one are left out."""
        found = self._admin.list_consumer_group_offsets(group_id, list(partitions), require_stable=True)
        return {tp: at.offset for tp, at in found.items() if at is not None}

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit offsets for a group, marked as those of a Spark query. Raises GroupError if the group has members."""
        marked = {tp: OffsetAndMetadata(offset, metadata=OF_SPARK) for tp, offset in offsets.items()}
        self._admin.alter_consumer_group_offsets(group_id, marked, timeout=COMMIT_S)

    def next_times(self, begin: Offsets, end: Offsets, timeout_s: float) -> dict[TopicPartition, int | None]:
        """Return the timestamp in ms of the first record from `begin` up to, not including, `end`, by partition.

        A partition maps to None if no record arrived within timeout_s seconds. A partition is left out if a consumer can read no record in
        its range, for example because all transactions there were aborted.
        """
        deadline = time.monotonic() + timeout_s
        found: dict[TopicPartition, int | None] = {}
        self._consumer.assign(begin, ends=end)
        try:
            for tp, offset in begin.items():
                self._consumer.seek(tp, offset)
            while missing := begin.keys() - found.keys() - self._consumer.finished():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return {**found, **dict.fromkeys(missing)}
                for record in self._consumer.poll(left_s, max_records=1):
                    tp = TopicPartition(record.topic, record.partition)
                    found[tp] = record.timestamp
                    self._consumer.pause([tp])
        finally:
            self._consumer.assign([])
        return found

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        self._admin.close()

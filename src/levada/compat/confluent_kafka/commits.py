"""Commits of a consumer: those that the program asks for, automatic ones, and those of partitions that it gives up.

All calls are made while the consumer's lock is held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from time import monotonic
from typing import Any

from levada import KafkaConsumer, OffsetAndMetadata
from levada import TopicPartition as Place
from levada import errors as levada_errors
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, exception, raising_kafka_exceptions, to_kafka_error
from levada.compat.confluent_kafka.events import Events
from levada.compat.confluent_kafka.message import Message, TopicPartition, from_committed, to_commit
from levada.compat.confluent_kafka.offsets import Offsets, OffsetStore

CLOSE_S = 20.0
"""The most seconds that close() takes. Kubernetes gives a program 30 s in all to end."""
LEAVE_S = 5.0
"""The most seconds that close() takes without offsets to commit, as librdkafka's."""


class Commits:
    """Commits offsets of an OffsetStore, and reports the results to on_commit.

    own: the settings that levada does not have, such as enable.auto.commit. session_s: session.timeout.ms, in seconds. under_way: how many
    asynchronous commits have no result yet.
    """

    def __init__(
        self, client: KafkaConsumer[bytes, bytes], store: OffsetStore, events: Events, own: Mapping[str, Any], session_s: float
    ) -> None:
        self.under_way = 0
        self._client = client
        self._store = store
        self._events = events
        self._own = own
        self._committed_s = monotonic()
        self._close_s = min(session_s, CLOSE_S)
        self._close_by_s: float | None = None

    def commit(self, wanted: Offsets | None, assigned: Collection[Place], *, waits: bool) -> list[TopicPartition] | None:
        """Do what Consumer.commit() does. wanted: the offsets; None for those that are stored. assigned: the assigned partitions."""
        due = self._store.due() if wanted is None else wanted
        if not due:
            nothing = KafkaError(ErrorCodes._NO_OFFSET, "Commit failed: Local: No offset stored")
            if waits:
                raise exception(nothing.code(), nothing.str())
            self._report(nothing, {})
            return None
        if not waits:
            self._commit_async(due)
            return None
        with raising_kafka_exceptions("Commit failed"):
            self._client.commit(due, timeout=self.left_to_close_s())
        self._store.committed(due)
        listed: Mapping[Place, OffsetAndMetadata | None] = due if wanted is not None else {**dict.fromkeys(assigned), **due}
        return from_committed(listed)

    def commit_automatically(self) -> None:
        """With enable.auto.commit, commit what is stored every auto.commit.interval.ms."""
        now_s = monotonic()
        if self._own["enable.auto.commit"] and now_s - self._committed_s >= self._own["auto.commit.interval.ms"] / 1000:
            self._committed_s = now_s
            due = self._store.due()
            if due:
                self._commit_async(due)

    def commit_before_leaving(self, partitions: Collection[Place]) -> None:
        """With enable.auto.commit, commit what is stored of partitions that are given up. Only on_commit gets an error."""
        due = self._due_automatically(partitions)
        if not due:
            return
        error: KafkaError | None = None
        try:
            self._client.commit(due, timeout=self.left_to_close_s())
        except levada_errors.KafkaError as failed:
            error = to_kafka_error(failed)
        else:
            self._store.committed(due)
        self._report(error, due)

    def begin_close(self, assigned: Collection[Place]) -> None:
        """Limit the time of close(), which begins now."""
        limit_s = self._close_s if self._due_automatically(assigned) else min(self._close_s, LEAVE_S)
        self._close_by_s = monotonic() + limit_s

    def left_to_close_s(self) -> float | None:
        """Return the seconds that are left for close(), also for commits of callbacks within it; None if it was not called."""
        return None if self._close_by_s is None else max(self._close_by_s - monotonic(), 0)

    def _due_automatically(self, partitions: Collection[Place]) -> Offsets:
        return self._store.due(partitions) if self._own["enable.auto.commit"] else {}

    def _commit_async(self, offsets: Offsets) -> None:
        def done(committed: Mapping[Place, OffsetAndMetadata], error: BaseException | None) -> None:
            self.under_way -= 1
            if error is None:
                self._store.committed(offsets)
            self._report(None if error is None else to_kafka_error(error), offsets)

        with raising_kafka_exceptions("Commit failed"):
            self._client.commit_async(offsets, done)
        self.under_way += 1

    def _report(self, error: KafkaError | None, offsets: Offsets) -> None:
        callback = self._own["on.commit"]
        if callback is not None:
            self._events.add(lambda: callback(error, from_committed(offsets)))


def offsets_of(message: Message | None, offsets: list[TopicPartition] | None) -> Offsets | None:
    """Return the offsets that commit() or store_offsets() is about; None if neither argument was given. Raises ValueError if both were, and
    KafkaException for a message that is an error.
    """
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if offsets is not None:
        return to_commit(offsets)
    if message is None:
        return None
    if not isinstance(message, Message):
        raise TypeError("expected Message")
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if message.error() is not None or topic is None or partition is None or offset is None:
        raise exception(ErrorCodes._INVALID_ARG, "Cannot commit a message with an error")
    epoch = message.leader_epoch()
    return {Place(topic, partition): OffsetAndMetadata(offset + 1, -1 if epoch is None else epoch)}

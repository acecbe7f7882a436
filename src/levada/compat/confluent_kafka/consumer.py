"""Consumer: poll() and consume() return messages from the records that levada's consumer has returned before.

Positions, stored offsets and commits are about messages that the program got, not about the records that wait for its next call. Those are
dropped when their partition is revoked, paused or sought; records of a paused partition are read again.

While the program calls poll() or consume(), levada's consumer is polled every _CALL_EVERY_S seconds even if records wait. So rebalances are
noticed, and max.poll.interval.ms is kept. While asynchronous commits are under way it is polled every _COMMITS_EVERY_S seconds, because it
reports their results in poll().
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Self

from levada import ConsumerGroupMetadata, ConsumerRecord, KafkaConsumer, OffsetAndMetadata
from levada import TopicPartition as Place
from levada import errors as levada_errors
from levada.compat.confluent_kafka.cluster import Cluster, ClusterMetadata
from levada.compat.confluent_kafka.commits import Commits, offsets_of
from levada.compat.confluent_kafka.configuration import consumer_configuration, refused
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, exception, raising_kafka_exceptions, to_kafka_error
from levada.compat.confluent_kafka.events import ClientEvents, Events, client_id_of
from levada.compat.confluent_kafka.message import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
    checked_offset,
    consumed,
    from_committed,
    place,
    places,
    seconds,
)
from levada.compat.confluent_kafka.not_there import CONSUMER, lacks
from levada.compat.confluent_kafka.offsets import EndsOfPartitions, OffsetStore
from levada.compat.confluent_kafka.turns import Turns

RebalanceCallback = Callable[[Any, list[TopicPartition]], object]

_STEP_S = 0.1
_CALL_EVERY_S = 1.0
_COMMITS_EVERY_S = 0.005
_FOREVER_S = 10.0**8
_RESETS = {
    **dict.fromkeys(("earliest", "smallest", "beginning"), OFFSET_BEGINNING),
    **dict.fromkeys(("latest", "largest", "end"), OFFSET_END),
}


@lacks(CONSUMER)
class Consumer:
    """A consumer with confluent-kafka's calls, over levada's KafkaConsumer. Several threads may use it."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        settings, own = configuration = consumer_configuration(config, keywords)
        self._own = own
        self._turns = Turns()
        self._events = Events()
        self._reports = ClientEvents(self._events, own, client_id_of(settings, "consumer"), "consumer")
        try:
            self._client: KafkaConsumer[bytes, bytes] = KafkaConsumer(settings)
        except levada_errors.ConfigError as error:
            self._reports.close()
            raise refused(error) from error
        self._reports.watch(self._client, self)
        self._cluster = Cluster(configuration.connection)
        self._records: deque[ConsumerRecord[bytes, bytes]] = deque()
        self._errors: deque[Message] = deque()
        self._store = OffsetStore()
        session_s = int(settings.get("session.timeout.ms", 45_000)) / 1000
        self._commits = Commits(self._client, self._store, self._events, own, session_s)
        self._ends = EndsOfPartitions(self._client) if own["enable.partition.eof"] else None
        self._assigned: dict[Place, int] = {}
        self._callbacks: dict[str, RebalanceCallback | None] = {}
        self._rebalancing: list[Place] | None = None
        self._paused: set[Place] = set()
        self._subscribed = False
        self._unchecked: list[str] = []
        self._last_error = ""
        self._called_s = monotonic()
        self._reset = str(settings.get("auto.offset.reset", "latest")).lower()
        self._closed = False

    # What is read

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        **unknown: Any,
    ) -> None:
        """Read topics as a member of the group. A topic that begins with '^' is a regular expression.

        The functions are called as f(consumer, partitions) within poll(), consume(), unsubscribe() and close(). on_lost: by default
        on_revoke.
        """
        if unknown:
            raise TypeError(f"'{next(iter(unknown))}' is an invalid keyword argument for this function")
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise TypeError("expected list of topic unicode strings")
        for name, callback in (("on_assign", on_assign), ("on_revoke", on_revoke), ("on_lost", on_lost)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} expects a callable")
        with self._call():
            self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost or on_revoke}
            listeners: dict[str, Any] = {
                "on_assigned": self._on_assigned,
                "on_revoked": self._on_revoked,
                "on_lost": self._on_lost,
            }
            self._unchecked = []
            with raising_kafka_exceptions("Failed to subscribe"):
                if any(topic.startswith("^") for topic in topics):
                    self._client.subscribe(pattern=_pattern(topics), **listeners)
                else:
                    self._client.subscribe(topics, **listeners)
                    self._unchecked = list(topics)
            self._subscribed = True

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing. It has no effect on partitions of assign(); unassign() gives them up."""
        with self._call(), raising_kafka_exceptions("Failed to unsubscribe"):
            if not self._subscribed:
                return
            self._client.unsubscribe()
            self._subscribed = False
            self._forget(list(self._assigned))

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions, each from its offset. OFFSET_STORED stands for the committed offset, and so does OFFSET_INVALID,
        the default. With enable.auto.commit, what is stored is committed before.

        For a subscribed consumer they have to be partitions that the group has assigned to it: the call chooses where they begin, and which
        are left out. Raises KafkaException for other partitions.
        """
        with self._call():
            offsets = _offsets(partitions)
            if self._subscribed:
                self._choose(offsets, list(self._assigned) if self._rebalancing is None else self._rebalancing)
                return
            self._commits.commit_before_leaving(self._assigned)
            self._forget([tp for tp in self._assigned if tp not in offsets])
            self._assign(offsets)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, too. Raises KafkaException if one is assigned already.

        For a subscribed consumer it does within on_assign what assign() does; at other times it only chooses where partitions that the
        group has assigned begin.
        """
        with self._call():
            offsets = _offsets(partitions)
            if self._subscribed:
                self._choose(offsets, self._rebalancing or [])
                return
            if offsets.keys() & self._assigned.keys():
                raise exception(ErrorCodes._CONFLICT, "Partitions are assigned already; use seek()")
            self._assign(offsets, {**self._assigned, **offsets})

    def unassign(self) -> None:
        """Read nothing. Within on_assign, on_revoke and on_lost it has no effect: there the group decides."""
        with self._call():
            self._give_up(list(self._assigned))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions. Within on_assign, on_revoke and on_lost it has no effect: there the group decides. Raises
        KafkaException for a partition that is not assigned.
        """
        with self._call():
            gone = places(partitions)
            if any(tp not in self._assigned for tp in gone):
                raise exception(ErrorCodes._INVALID_ARG, "Can't subtract partitions that are not assigned")
            self._give_up(gone)

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, each with the offset that assign() got for it; OFFSET_INVALID if the group has assigned it."""
        with self._call():
            return [TopicPartition(*tp, offset) for tp, offset in self._assigned.items()]

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Return no messages of these partitions until resume(). Partitions that are not assigned are ignored."""
        with self._call():
            paused = [tp for tp in places(partitions) if tp in self._assigned]
            self._drop(paused)
            self._client.pause(paused)
            self._paused.update(paused)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return messages of paused partitions again. Partitions that are not assigned are ignored."""
        with self._call():
            resumed = [tp for tp in places(partitions) if tp in self._assigned]
            self._client.resume(resumed)
            self._paused.difference_update(resumed)

    def seek(self, partition: TopicPartition) -> None:
        """Continue to read a partition at its offset. OFFSET_INVALID, the default, stands for the end of the log that auto.offset.reset
        names. Raises KafkaException if the partition is not assigned, or if auto.offset.reset names no end.
        """
        with self._call():
            if place(partition) not in self._assigned:
                code = ErrorCodes._STATE if self._assigned else ErrorCodes._UNKNOWN_PARTITION
                raise exception(
                    code, f"Failed to seek to offset {partition.offset}: {partition.topic} [{partition.partition}] is not assigned"
                )
            offset = checked_offset(partition)
            if offset == OFFSET_INVALID:
                if self._reset not in _RESETS:
                    raise exception(ErrorCodes._AUTO_OFFSET_RESET, f"Failed to seek to offset {offset}: auto.offset.reset={self._reset}")
                offset = _RESETS[self._reset]
            self._seek_all({place(partition): offset})

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the position after the last message that the program got, per partition; OFFSET_INVALID before the first."""
        with self._call():
            return from_committed({tp: self._store.position.get(tp) for tp in places(partitions)})

    # Messages

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message or error, or None after `timeout` seconds; negative for no limit. Runs callbacks."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Return up to `num_messages` messages and errors, waiting for them up to `timeout` seconds; negative for no limit."""
        if not 0 <= num_messages <= 1_000_000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        self._check_open()
        limit = seconds(timeout)
        deadline = monotonic() + (_FOREVER_S if limit is None else limit)
        found: list[Message] = []
        waits_s = 0.0
        while True:
            self._turns.step(self._step, found, num_messages, waits_s)
            waits_s = min(deadline - monotonic(), _STEP_S)
            if len(found) >= num_messages or waits_s <= 0:
                return found

    def _step(self, found: list[Message], num_messages: int, waits_s: float) -> None:
        """Run callbacks, wait, and append messages to `found` until it has `num_messages`."""
        self._check_open()
        self._serve()
        if len(found) < num_messages:
            self._fill(waits_s)
        while len(found) < num_messages and (message := self._next()) is not None:
            found.append(message)

    def _fill(self, waits_s: float) -> None:
        """Commit automatically if it is time. Poll levada's consumer if no records or errors wait, or if its last poll is too long ago; add
        its records, its errors and the ends of partitions to what waits.
        """
        self._commits.commit_automatically()
        is_empty = not self._records and not self._errors
        now_s = monotonic()
        if not is_empty and now_s - self._called_s < (_COMMITS_EVERY_S if self._commits.under_way else _CALL_EVERY_S):
            return
        self._called_s = now_s
        if not self._subscribed and not self._assigned:
            # Levada's poll() would raise an error.
            self._events.wait(waits_s)
            return
        try:
            # With records left, one more is enough: the call is for the group.
            found = self._client.poll(waits_s if is_empty else 0, None if is_empty else 1)
            self._records += found
            if not self._records:
                self._pass_invisible_records()
            self._check_topics()
        except levada_errors.KafkaError as error:
            self._fail(error, waits_s)
        if self._ends is not None:
            left = {Place(record.topic, record.partition) for record in self._records}
            ended = self._ends.reached(tp for tp in self._assigned if tp not in left and tp not in self._paused)
            self._errors += [_end_message(tp, offset) for tp, offset in ended]

    def _pass_invisible_records(self) -> None:
        """Move positions past what levada has passed after the last message: ends of transactions, and records that were aborted."""
        for tp, at in self._client.consumed_offsets().items():
            position = self._store.position.get(tp)
            if position is not None and at.offset > position.offset:
                self._moved(tp, at)

    def _moved(self, tp: Place, at: OffsetAndMetadata) -> None:
        """Note the position after what the program got; with enable.auto.offset.store, store it for the next commit."""
        self._store.position[tp] = at
        if self._own["enable.auto.offset.store"]:
            self._store.store({tp: at})

    def _check_topics(self) -> None:
        """After the consumer has joined its group, add an error for each subscribed topic that does not exist. If there are records, forget
        the last error.
        """
        if self._records:
            self._last_error = ""
        while self._unchecked and self._client.group_metadata().generation_id >= 0:
            topic = self._unchecked.pop()
            try:
                self._client.partitions_for(topic, timeout=1)
            except levada_errors.UnknownTopicOrPartitionError as error:
                unknown = to_kafka_error(error, f"Subscribed topic not available: {topic}: ")
                self._errors.append(_error_message(Place(topic, 0), unknown))

    def _fail(self, error: levada_errors.KafkaError, waits_s: float) -> None:
        """Add an error to those that wait. Levada raises it again with every poll(), librdkafka reports it once; so an error that was the
        last one already is not added, unless it is fatal. An AuthenticationError goes to error_cb instead, if there is one.
        """
        for_error_cb = isinstance(error, levada_errors.AuthenticationError) and self._own["error.cb"] is not None
        if for_error_cb or (str(error) == self._last_error and not error.fatal):
            self._events.wait(waits_s)
            return
        self._last_error = str(error)
        self._errors += self._failures(error)

    def _next(self) -> Message | None:
        """Remove and return the next record, after moving the position past it, or else the next error; None if nothing waits."""
        if self._records:
            record = self._records.popleft()
            self._moved(Place(record.topic, record.partition), OffsetAndMetadata(record.offset + 1, record.leader_epoch))
            return consumed(record)
        return self._errors.popleft() if self._errors else None

    def _failures(self, error: levada_errors.KafkaError) -> list[Message]:
        """Return an error of levada's poll() as messages. Partitions that cannot continue are paused until seek(), so that the error comes
        only once.
        """
        kafka_error = to_kafka_error(error)
        if isinstance(error, levada_errors.OffsetOutOfRangeError) and not isinstance(error, levada_errors.LogTruncationError):
            kafka_error = KafkaError(ErrorCodes._AUTO_OFFSET_RESET, str(error))
        stopped = self._without_position(error)
        if not stopped:
            return [_error_message(None, kafka_error)]
        self._client.pause(stopped)
        return [_error_message(tp, kafka_error) for tp in stopped]

    def _without_position(self, error: levada_errors.KafkaError) -> list[Place]:
        tp = getattr(error, "partition", None)
        if isinstance(tp, Place):
            return [tp] if tp in self._assigned else []
        if isinstance(error, levada_errors.NoOffsetForPartitionError):
            # The error names its partitions in its text only.
            return [tp for tp in self._assigned if re.search(rf"(?<![\w.-]){re.escape(str(tp))}(?!\d)", str(error))]
        return []

    # Offsets

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
        **older: bool,
    ) -> list[TopicPartition] | None:
        """Commit the offset after a message, or offsets, or by default what is stored and not committed.

        asynchronous: return None at once, and call on_commit within a later poll(). Otherwise return what was committed; by default with
        all assigned partitions, OFFSET_INVALID for those without a commit. If there is nothing to commit, the error is _NO_OFFSET.
        """
        waits = not older.pop("async", asynchronous)
        if older:
            raise TypeError(f"'{next(iter(older))}' is an invalid keyword argument for this function")
        wanted = offsets_of(message, offsets)
        with self._call():
            return self._commits.commit(wanted, self._assigned, waits=waits)

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Store the offset after a message, or offsets, for the next commit. Raises KafkaException for a partition that is not assigned.

        Needs enable.auto.offset.store=false.
        """
        wanted = offsets_of(message, offsets)
        if wanted is None:
            raise ValueError("expected either message or offsets")
        with self._call():
            if self._own["enable.auto.offset.store"]:
                raise exception(ErrorCodes._INVALID_ARG, "StoreOffsets failed: set enable.auto.offset.store=false")
            if any(tp not in self._assigned for tp in wanted):
                raise exception(ErrorCodes._STATE, "StoreOffsets failed: a partition is not assigned")
            self._store.store(wanted)

    def committed(self, partitions: list[TopicPartition], timeout: float | None = -1) -> list[TopicPartition]:
        """Return the committed offsets of partitions; OFFSET_INVALID for none."""
        with self._call(), raising_kafka_exceptions("Failed to get committed offsets"):
            return from_committed(self._client.committed(places(partitions), timeout=_limit(timeout)))

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float | None = -1, cached: bool = False) -> tuple[int, int]:
        """Return (first offset, end offset). cached: as of the last fetch, without asking; OFFSET_INVALID if there was none, or if the
        partition is not assigned.
        """
        tp, limit = place(partition), _limit(timeout)
        with self._call(), raising_kafka_exceptions("Failed to get watermark offsets"):
            if not cached:
                try:
                    return self._client.beginning_offsets([tp], timeout=limit)[tp], self._client.end_offsets([tp], timeout=limit)[tp]
                except levada_errors.UnknownTopicOrPartitionError as error:
                    raise exception(ErrorCodes._UNKNOWN_PARTITION, f"Failed to get watermark offsets: {error}") from error
            lag = self._client.current_lag(tp) if tp in self._assigned else None
            if lag is None:
                return OFFSET_INVALID, OFFSET_INVALID
            at = self._client.position(tp)
            return at - (self._client.current_lead(tp) or 0), at + lag

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float | None = -1) -> list[TopicPartition]:
        """Return for each partition the first offset at or after a time; OFFSET_END if there is none. The time is the partition's `offset`,
        in milliseconds since the epoch.
        """
        times = {place(partition): partition.offset for partition in partitions}
        with self._call(), raising_kafka_exceptions("Failed to get offsets"):
            found = self._client.offsets_for_times(times, timeout=_limit(timeout))
        return [
            TopicPartition(*tp, OFFSET_END) if at is None else TopicPartition(*tp, at.offset, None, at.leader_epoch)
            for tp, at in found.items()
        ]

    # The group, the cluster, and the end

    def memberid(self) -> str:
        """Return the id that the group's coordinator has given this member; "" before it has joined."""
        with self._call():
            return self._client.group_metadata().member_id

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Return what Producer.send_offsets_to_transaction() needs."""
        with self._call():
            return self._client.group_metadata()

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Describe the brokers, and one topic or all. timeout: as in Cluster.list_topics()."""
        self._check_open()
        return self._cluster.list_topics(topic, timeout)

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        self._check_open()
        return self._cluster.cluster_id(timeout)

    def close(self) -> None:
        """Commit what is stored if enable.auto.commit is set, leave the group, and close the connections. Runs callbacks.

        If brokers do not answer, it ends after session.timeout.ms, or commits.CLOSE_S seconds if that is less; with nothing to commit
        after commits.LEAVE_S seconds at most. Later calls raise RuntimeError.
        """
        with self._turns.turn():
            if self._closed:
                return
            self._commits.begin_close(self._assigned)
            try:
                # For a subscribed consumer, _on_revoked() commits, after the callback.
                if not self._subscribed:
                    self._commits.commit_before_leaving(self._assigned)
                with raising_kafka_exceptions("Failed to close"):
                    self._client.close(self._commits.left_to_close_s())
            finally:
                self._closed = True
                self._cluster.close()
                self._reports.close()
            self._events.serve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Rebalances, called by levada within poll()

    def _on_assigned(self, partitions: list[Place]) -> None:
        self._assigned |= dict.fromkeys(partitions, OFFSET_INVALID)
        self._tell("assign", partitions)

    def _on_revoked(self, partitions: list[Place]) -> None:
        try:
            self._tell("revoke", partitions)
            self._commits.commit_before_leaving(partitions)
        finally:
            self._forget(partitions)

    def _on_lost(self, partitions: list[Place]) -> None:
        try:
            self._tell("lost", partitions)
        finally:
            self._forget(partitions)

    def _tell(self, what: str, partitions: list[Place]) -> None:
        callback = self._callbacks.get(what)
        if callback is None:
            return
        self._rebalancing = partitions
        try:
            callback(self, [TopicPartition(*tp) for tp in partitions])
        finally:
            self._rebalancing = None

    # What the calls share

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._turns.turn():
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    def _choose(self, offsets: dict[Place, int], given: list[Place]) -> None:
        """Read partitions that the group has assigned from these offsets. given: partitions that are left out if they are not in `offsets`.
        Raises KafkaException for a partition that is not assigned.
        """
        if any(tp not in self._assigned for tp in offsets):
            raise exception(ErrorCodes._STATE, "The group has not assigned these partitions; call unsubscribe() before assign()")
        self._commits.commit_before_leaving([*offsets, *given])
        self._store.forget(offsets)
        self._seek_all(offsets)
        self._leave_out([tp for tp in given if tp not in offsets and tp in self._assigned])

    def _give_up(self, gone: list[Place]) -> None:
        if self._rebalancing is not None:
            return
        self._commits.commit_before_leaving(gone)
        if self._subscribed:
            self._leave_out(gone)
        else:
            self._forget(gone)
            self._assign({}, dict(self._assigned))

    def _leave_out(self, partitions: list[Place]) -> None:
        """Read nothing of partitions that stay this member's until the group's next rebalance."""
        self._client.pause(partitions)
        self._forget(partitions)

    def _assign(self, offsets: dict[Place, int], all_offsets: dict[Place, int] | None = None) -> None:
        """Assign partitions, and read them from their offsets. all_offsets: also has the partitions that stay assigned; None if none do."""
        wanted = offsets if all_offsets is None else all_offsets
        with raising_kafka_exceptions("Failed to set assignment"):
            self._client.assign(wanted)
        self._assigned = dict(wanted)
        self._store.forget(offsets)
        self._seek_all(offsets)

    def _seek_all(self, offsets: dict[Place, int]) -> None:
        known = {tp: offset for tp, offset in offsets.items() if tp in self._assigned}
        self._last_error = ""
        self._drop(known, seek=False)
        self._store.forget_position(known)
        if self._ends is not None:
            self._ends.forget(known)
        for tp, offset in known.items():
            if offset >= 0:
                self._client.seek(tp, offset)
            elif offset == OFFSET_BEGINNING:
                self._client.seek_to_beginning([tp])
            elif offset == OFFSET_END:
                self._client.seek_to_end([tp])
            elif tp not in (self._rebalancing or ()):
                # OFFSET_STORED or OFFSET_INVALID. Within on_assign, levada begins at the committed offset by itself.
                self._client.seek_to_committed([tp])
        # Errors of a position have paused its partition.
        self._client.resume([tp for tp in known if tp not in self._paused])

    def _drop(self, partitions: Iterable[Place], *, seek: bool = True) -> None:
        """Drop the waiting records of these partitions. seek: let the records be read again; otherwise drop the waiting errors, too."""
        gone = set(partitions)
        kept: deque[ConsumerRecord[bytes, bytes]] = deque()
        first: dict[Place, int] = {}
        for record in self._records:
            tp = Place(record.topic, record.partition)
            if tp in gone:
                first.setdefault(tp, record.offset)
            else:
                kept.append(record)
        self._records = kept
        if not seek:
            self._errors = deque(message for message in self._errors if (message.topic(), message.partition()) not in gone)
            return
        for tp, offset in first.items():
            self._client.seek(tp, offset)

    def _forget(self, partitions: Iterable[Place]) -> None:
        gone = list(partitions)
        self._drop(gone, seek=False)
        self._store.forget(gone)
        self._paused.difference_update(gone)
        if self._ends is not None:
            self._ends.forget(gone)
        for tp in gone:
            self._assigned.pop(tp, None)

    def _serve(self) -> None:
        self._events.serve()
        self._reports.serve(lambda: {"replyq": len(self._records)})


def _offsets(partitions: list[TopicPartition]) -> dict[Place, int]:
    if not isinstance(partitions, list):
        raise TypeError("expected list of TopicPartition")
    return {place(partition): checked_offset(partition) for partition in partitions}


def _pattern(topics: list[str]) -> str:
    """Return one regular expression for all topics and patterns. In levada it has to match the whole name of a topic; a pattern of
    librdkafka has to match only the beginning. Raises KafkaException for a pattern that is not valid.
    """
    for topic in topics:
        try:
            re.compile(topic if topic.startswith("^") else "")
        except re.error as error:
            raise exception(ErrorCodes._INVALID_ARG, f"Failed to set subscription: {topic!r}: {error}") from error
    return "|".join(f"(?:{topic}).*" if topic.startswith("^") else re.escape(topic) for topic in topics)


def _limit(timeout: float | None) -> float:
    limit = seconds(timeout)
    return _FOREVER_S if limit is None else limit


def _error_message(tp: Place | None, error: KafkaError, offset: int | None = None) -> Message:
    topic, partition = (None, None) if tp is None else tp
    return Message(topic, partition, offset, None, error.str().encode(), None, error, (TIMESTAMP_NOT_AVAILABLE, -1))


def _end_message(tp: Place, offset: int) -> Message:
    return _error_message(tp, KafkaError(ErrorCodes._PARTITION_EOF, f"reached end of partition at offset {offset}"), offset)

"""The parts of a consumer, wired to an engine. The public APIs wait and convert types; every decision is made here or below.

Methods are called under the engine's lock, except collect_records(), collect_columns() and collect_part(), which take it for moments
themselves. The caller's thread or task also reads some properties without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.flow import Flow, WaitAny, at_once
from levada.base.measure import Measure
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED, Host
from levada.client.engine import Engine
from levada.client.requests.coordinator_finder import CoordinatorKind
from levada.client.requests.fan_out import Spawn
from levada.client.requests.flow_runner import FlowsBeside
from levada.client.requests.group_offsets import Committed, Waiting, fetch_offsets
from levada.client.requests.retry import Retries
from levada.consumer.counters import ConsumerCounters
from levada.consumer.fetch.columns_ahead import BatchSink
from levada.consumer.fetch.dead_letters import DeadLetters
from levada.consumer.fetch.decode import RecordConverter, on_decode_error
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.consumer.fetch.fetch_collector import FetchCollector
from levada.consumer.fetch.fetcher import Fetcher
from levada.consumer.group.classic import ClassicMember
from levada.consumer.group.consumer_member import ConsumerGroupMember
from levada.consumer.group.consumer_requests import new_member_id
from levada.consumer.group.membership import Holdings, Membership, Subscribed
from levada.consumer.group.requests import GroupSettings
from levada.consumer.health import ConsumerHealth, Seen, consumer_health, partition_health
from levada.consumer.positions.auto_offset_reset import ByDuration, ResetTo, asked_time, reset_policy
from levada.consumer.positions.commits import Commits
from levada.consumer.positions.committed_positions import CommittedPositions
from levada.consumer.positions.offsets import OffsetFinder
from levada.consumer.positions.position_resetter import PositionReset, PositionResetter
from levada.consumer.positions.position_validator import PositionValidator
from levada.consumer.positions.subscription_state import PartitionState, PartitionStatus, SubscriptionState
from levada.consumer.settings import ConsumerSettings
from levada.consumer.stall import Stalls, SubscribedTopics
from levada.consumer.topic_metadata import list_topics, partitions_for
from levada.errors import IllegalStateError, InvalidGroupIdError, KafkaError, NoOffsetForPartitionError
from levada.types import (
    NO_LEADER_EPOCH,
    UNKNOWN_OFFSET,
    AnyRecord,
    IsolationLevel,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionInfo,
    TopicPartition,
)

T = TypeVar("T")

NO_TOPICS: frozenset[str] = frozenset()
LAST_WORD_MS = 1_000
"""How long a consumer that was dropped without close() may take to end: the interpreter may wait for it at exit."""


class ConsumerCore:
    """Reads assigned partitions. host: runs the engine. on_reset: called for each invalid position that was moved (see PositionReset)."""

    def __init__(
        self,
        engine: Engine,
        *,
        host: Host,
        random: Random,
        settings: ConsumerSettings,
        on_reset: Callable[[PositionReset], None] = lambda reset: None,
    ) -> None:
        read = settings.read
        backoff = self._backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self.subscription = SubscriptionState()
        self.letters: DeadLetters | None = None
        """Records on their way to a dead-letter topic; None without one."""
        self._engine = engine
        self._now_ms = host.now_ms
        self._isolation_level = read.isolation_level
        self._log = engine.deferred.log(__name__)
        self._told_of_unsettled_offsets = False
        self._wall_ms = host.wall_ms
        self._reset_to = reset_policy(settings.auto_offset_reset)
        self._metadata_version = 0
        self._may_create = settings.allow_auto_create_topics
        self._api_timeout_ms = settings.default_api_timeout_ms
        self._buffer = FetchBuffer(self.subscription, settings.fetch.buffer_bytes)
        spawn = FlowsBeside(engine.flows, engine.now)
        asking: Mapping[str, Any] = {"metadata": engine.metadata, "backoff": backoff, "spawn": spawn, "now": engine.now}
        self._finder = OffsetFinder(isolation_level=read.isolation_level, **asking)
        positions: Mapping[str, Any] = {
            **asking,
            "subscription": self.subscription,
            "buffer": self._buffer,
            "on_reset": lambda reset: engine.deferred.append(lambda: on_reset(reset)),
        }
        validator = PositionValidator(reset_to=self._reset_to, **positions)
        resetter = PositionResetter(isolation_level=read.isolation_level, wall_ms=host.wall_ms, **positions)
        member = None if settings.group is None else self._new_member(settings.group, host, spawn)
        self.member: Membership | None = member
        self.commits = self._new_commits(settings)
        self._committed = None if settings.group is None else self._committed_positions(settings.group.group_id, spawn)
        self._topics = SubscribedTopics(engine.metadata, engine.deferred, self._subscription, self._pattern)
        self._stalls = self._new_stalls()
        self._fetcher = Fetcher(
            subscription=self.subscription,
            buffer=self._buffer,
            metadata=engine.metadata,
            network=engine.network,
            settings=settings.fetch,
            backoff=backoff,
            deferred=engine.deferred,
        )
        self._collector = self._new_collector(settings, host)
        self.collect_records = self._collector.collect_records
        self.collect_columns = self._collector.collect_columns
        self.collect_part = self._collector.collect_part
        self.take_back = self._collector.take_back
        for poller in (self, validator, resetter, self._fetcher):
            engine.add_poller(poller)
        if member is not None:
            engine.add_poller(member)

    @property
    def counters(self) -> ConsumerCounters:
        """The counters."""
        return self._buffer.counters

    def latency(self, api: str) -> Measure:
        """Return the response times of an API."""
        return self._engine.network.in_flight.traffic.latency(api)

    def poll(self, now_ms: int) -> int:
        """Wake a waiting poll() when metadata has changed: it may have to raise an error in metadata."""
        if self._engine.metadata.version != self._metadata_version:
            self._metadata_version = self._engine.metadata.version
            self._buffer.announce()
        return NEVER_MS

    # Assignment and positions

    def assign(self, partitions: Iterable[TopicPartition], ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Replace the assignment. ends: offsets to read up to, for bounded partitions.

        Raises IllegalStateError if the consumer is subscribed, ValueError for an empty topic name or a negative partition number.
        """
        if self.is_subscribed:
            raise IllegalStateError("the group assigns the partitions of a subscribed consumer; unsubscribe() before assign()")
        self.subscription.assign(partitions, now_ms, ends)
        self._follow_assignment(now_ms)
        # On asyncio another task may wait in poll(), which then looks the positions up.
        self._buffer.announce()

    def subscribe(self, subscribed: Subscribed, now_ms: int) -> None:
        """Subscribe to topics, whose partitions the group assigns.

        Raises IllegalStateError while partitions are assigned by assign(), or if the group protocol does not support the pattern, and
        InvalidGroupIdError without a group.
        """
        if self.member is None:
            raise InvalidGroupIdError("subscribe() needs a group that assigns partitions; give the consumer a group.id, or use assign()")
        if not self.is_subscribed and len(self.subscription):
            raise IllegalStateError("the consumer has manually assigned partitions; assign([]) before subscribe()")
        self.member.subscribe(subscribed, now_ms)
        self._stalls.waits_since_ms = now_ms

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer has a subscription, so that a group assigns its partitions."""
        return self.member is not None and self.member.subscribed is not None

    @property
    def knows_coordinator(self) -> bool:
        """Whether the group's coordinator is known: it was found, and since then neither forgotten nor its connection lost.

        Raises InvalidGroupIdError without a group.
        """
        return self._engine.coordinators.knows(CoordinatorKind.GROUP, self.commits.group.group_id)

    def begin_leave(self, reason: str, now_ms: int, *, tells: bool | None) -> Promise[None]:
        """Leave the group; return a promise that settles when the request, if one is sent, is answered or has failed.

        tells: see Membership.leave().
        """
        assert self.member is not None
        self._stalls.waits_since_ms = NEVER_MS
        leaving = self.member.leave(reason, now_ms, tells=tells)
        self._follow_assignment(now_ms)
        return self._start_beside(leaving, f"leaving group '{self.commits.group.group_id}'")

    def end_by_itself(self) -> Flow[None]:
        """Return the last flow of a consumer that was dropped without close(): it leaves the group, if the consumer is subscribed.

        So the group does not wait for the end of the session, unless the member is static. Nothing is committed, because it is unknown
        which records the program has processed.
        """
        if self.is_subscribed:
            left = self.begin_leave("the consumer was dropped without close()", self._now_ms(), tells=None)
            yield WaitAny([left], timeout_ms=LAST_WORD_MS)

    @property
    def has_pending_work(self) -> bool:
        """Whether poll() has to do work for the group before it returns records."""
        return self.member is not None and self.member.has_pending_work

    def _assign_from_group(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        # A listener may have called unsubscribe() and assign().
        if self.is_subscribed:
            self.subscription.assign(partitions, now_ms)
            self._buffer.drop_stale()
            self.counters.keep(self.subscription.topics)

    def assign_ranges(self, ranges: Mapping[TopicPartition, tuple[int, int]], now_ms: int) -> None:
        """Replace the assignment: read each partition from the offset `start` to before the offset `stop`."""
        self.subscription.assign_ranges(ranges, now_ms)
        self._follow_assignment(now_ms)

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Move the position of a partition. Raises IllegalStateError if it is not assigned, and ValueError for a negative offset.

        leader_epoch: the epoch of the record before this offset, to detect log truncation (KIP-320).
        """
        self.subscription.seek(tp, offset, leader_epoch)
        self._buffer.drop_stale()

    def seek_to(self, partitions: Collection[TopicPartition], to: OffsetSpec) -> None:
        """Move positions to the beginning or the end of the log, which is looked up later.

        Without partitions: those of all assigned ones. Raises IllegalStateError if a partition is not assigned.
        """
        self.subscription.seek_to(partitions, to)
        self._buffer.drop_stale()

    def seek_to_committed(self, partitions: Collection[TopicPartition]) -> None:
        """Move positions to the committed offsets, which are looked up later.

        Without partitions: those of all assigned ones. Raises IllegalStateError if a partition is not assigned.
        """
        self.subscription.seek_to_committed(partitions)
        self._buffer.drop_stale()

    def rewind(self, records: Iterable[AnyRecord], generation: int) -> None:
        """Move positions back to records that were returned but not used. Partitions that were moved since this generation keep their
        positions.
        """
        self.subscription.rewind(records, generation)
        self._buffer.drop_stale()

    def begin_call(self, now_ms: int) -> None:
        """Note that a poll() begins, begin an auto-commit that is due, and start the look-up of missing positions.

        The previous call can no longer be taken back. Raises the errors of prepare().
        """
        if self.member is not None:
            self.member.entered(now_ms)
        self.commits.begin_automatic(now_ms)
        self._collector.begin()
        if self.letters is not None:
            self.letters.forget_passed(self._position_of)
        self.prepare()

    def _position_of(self, tp: TopicPartition) -> int | None:
        state = self.subscription.find(tp)
        return None if state is None else state.position

    def end_call(self, now_ms: int) -> None:
        """Note that a poll() has ended."""
        if self.member is not None:
            self.member.returned(now_ms)

    def take_ahead(self, sink: BatchSink, limit: int, max_bytes: int, now_ms: int) -> tuple[Any, bool]:
        """Return rows that an earlier call has decoded ahead, and whether the engine needs no step afterwards.

        The rows are None if other records come next, if the rows are for another sink or max_bytes, if the group member has pending work,
        or if a position is missing. Counts as a poll(): it restarts max.poll.interval.ms, and begins an auto-commit that is due.
        """
        self.end_call(now_ms)
        commits = self.commits.begin_automatic(now_ms)
        # New partitions need a position first, and partitions that are to be revoked are not read any more.
        is_ready = not (self.has_pending_work or self.subscription.initializing())
        part = self._collector.take_ahead(sink, limit, max_bytes, now_ms) if is_ready else None
        return part, part is not None and self._collector.has_ahead and not commits

    def prepare(self) -> None:
        """Start the look-up of missing positions: of committed offsets, or without a group as auto.offset.reset says.

        If that is "none", raises NoOffsetForPartitionError without a group. With a group, a later poll() raises it for partitions without a
        committed offset.
        """
        fresh = self.subscription.initializing()
        if self._committed is not None:
            self._committed.put(fresh)
            return
        if fresh and self._reset_to is None:
            names = ", ".join(str(state.tp) for state in fresh)
            raise NoOffsetForPartitionError(f"{names}: no position, and auto.offset.reset is 'none'; seek() first")
        for state in fresh:
            if self._reset_to is not None:
                state.await_reset(self._reset_to)

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved by the next announce(), or at once if records can be collected."""
        return self._buffer.changed()

    def announced(self) -> Promise[None]:
        """Return a promise that is resolved by the next announce(), even if records can be collected already."""
        return self._buffer.announced()

    def announce(self) -> None:
        """Wake a waiting poll(), so that it checks again."""
        self._buffer.announce()
        if self.letters is not None:
            self.letters.announce()

    @property
    def calls(self) -> int:
        """The number of poll() calls so far."""
        return self._collector.calls

    @property
    def has_moved(self) -> bool:
        """Whether the last call moved a position, even if only past records that are hidden, such as aborted ones."""
        return self._collector.has_moved

    @property
    def is_due(self) -> bool:
        """Whether the engine has to act: fetches or look-ups that a call has made necessary were not sent yet, or it has log lines to
        write.
        """
        engine = self._engine
        return self._fetcher.is_due or self.subscription.is_marked or engine.flows.can_go_on or bool(engine.deferred)

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise because no records arrive; None to continue waiting. Log the warnings that are due (see Stalls).

        last_word: whether poll() is about to return no records.
        """
        return self._stalls.explain(now_ms, last_word=last_word)

    def _subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to by name, or that match a pattern in the client."""
        return NO_TOPICS if self.member is None else self.member.topics

    def _pattern(self) -> str | None:
        """Return the pattern that the client matches topics with; None without one."""
        subscribed = None if self.member is None else self.member.subscribed
        return None if subscribed is None or subscribed.pattern is None else subscribed.pattern.pattern

    def next_look_ms(self, now_ms: int) -> int:
        """The time, in ms, at which the result of explain() may change."""
        return self._stalls.next_look_ms(now_ms)

    def describe_standstill(self, now_ms: int) -> list[str]:
        """Return a line with the reason for each partition that is not read to its end, and one for each unreachable address."""
        lines = []
        for state in self.subscription:
            if not state.finished:
                end = self.end(state)
                readable = "" if end == UNKNOWN_OFFSET else f" readable up to {end};"
                why = self._stalls.standstill(state, now_ms)
                lines.append(f"  {state.tp}: at offset {state.position} of {state.stop_offset};{readable} {why}")
        return lines + self._stalls.failures()

    def end(self, state: PartitionState) -> int:
        """Return the offset up to which the partition could be read at the last fetch; -1 before a fetch."""
        reads_stable = self._isolation_level is IsolationLevel.READ_COMMITTED
        return state.last_stable_offset if reads_stable else state.high_watermark

    def lag(self, tp: TopicPartition) -> int | None:
        """Return the lag: offsets from the position to the end, as of the last fetch; None before a fetch or without a position.

        Raises IllegalStateError if the partition is not assigned.
        """
        state = self.subscription.state(tp)
        end = self.end(state)
        return max(end - state.position, 0) if state.has_position and end != UNKNOWN_OFFSET else None

    def lead(self, tp: TopicPartition) -> int | None:
        """Return the lead: offsets from the log start to the position, as of the last fetch (KIP-223). None and errors: as for lag()."""
        state = self.subscription.state(tp)
        start = state.log_start_offset
        return max(state.position - start, 0) if state.has_position and start != UNKNOWN_OFFSET else None

    def health(self, wall_ms: int) -> ConsumerHealth:
        """Return the condition of the consumer and of each partition, which tells why no records arrive. No request is sent for it."""
        network, snapshot = self._engine.network, self._engine.metadata.snapshot
        failures, unsettled = network.failures(), self._committed.unstable if self._committed is not None else ()
        found = [
            partition_health(
                Seen(
                    state,
                    self.end(state),
                    self._isolation_level,
                    snapshot,
                    failures,
                    network.ever_answered,
                    state.tp in unsettled,
                    None if self.commits.unacked is None else self.commits.unacked.pauses(state),
                ),
                self._collector.next_timestamp(state),
                wall_ms,
            )
            for state in self.subscription
        ]
        fenced = self.member.final_error if self.member is not None and self.is_subscribed else None
        absent = self._topics.absent(self._now_ms())
        return consumer_health(found, failures, rebalancing=self._is_rebalancing(), fenced=fenced, absent=absent)

    def _is_rebalancing(self) -> bool:
        """Return whether the group has yet to give the consumer its partitions."""
        member = self.member
        if member is None or member.subscribed is None or member.may_commit:
            return False
        # While no topic matches the pattern, the consumer does not join its group. While poll() raises an error about a topic, joining the
        # group does not help.
        may_join = bool(member.topics) or self._pattern() is None
        return may_join and self._topics.refusal(self._now_ms()) is None

    # Flows

    def position(self, tp: TopicPartition, now_ms: int) -> Flow[int]:
        """Return the position of a partition. If it is not known yet, look it up first.

        Raises IllegalStateError if the partition is not assigned, and NoOffsetForPartitionError without a committed offset if
        auto.offset.reset is "none".
        """
        state = self.subscription.state(tp)
        if self._committed is None:
            self.prepare()
        return at_once(state.position) if state.has_position else self._look_up_position(tp)

    def _look_up_position(self, tp: TopicPartition) -> Flow[int]:
        state = self.subscription.state(tp)
        if self._committed is not None and state.status is PartitionStatus.INITIALIZING:
            yield from self._committed.look_up([state])
        generation, reset_to = state.generation, state.reset_to
        if not state.has_position and reset_to is not None:
            found = yield from self._find_begin(tp, reset_to)
            if found is not None and state.generation == generation:
                state.move_to(found.offset, NO_LEADER_EPOCH)
        return self.subscription.state(tp).position

    def _find_begin(self, tp: TopicPartition, to: ResetTo) -> Flow[OffsetAndTimestamp | None]:
        found = (yield from self.find_offsets({tp: asked_time(to, self._wall_ms())}, self._engine.now_ms))[tp]
        if found is None and isinstance(to, ByDuration):
            found = (yield from self.find_offsets({tp: int(OffsetSpec.LATEST)}, self._engine.now_ms))[tp]
        return found

    def committed(self, partitions: Sequence[TopicPartition]) -> Flow[Committed]:
        """Return the committed offset of each partition; None if it has none. Raises InvalidGroupIdError without a group.id."""
        return self._fetch_committed(partitions, lambda unstable: None)

    def _fetch_committed(self, partitions: Sequence[TopicPartition], unstable: Callable[[list[TopicPartition]], None]) -> Flow[Committed]:
        retries = Retries(self._engine.metadata, self._backoff)
        group_id, member = self.commits.group.group_id, self.member
        asker = None if member is None else member.for_look_up
        waiting = Waiting(told=unstable, cannot=partial(self._tell_of_unsettled_offsets, group_id))
        return fetch_offsets(self._engine.coordinators, group_id, partitions, retries, waiting, asker=asker)

    def _tell_of_unsettled_offsets(self, group_id: str) -> None:
        """Warn once that committed offsets may be changed by an open transaction; only with isolation.level=read_committed."""
        if self._isolation_level is IsolationLevel.READ_COMMITTED and not self._told_of_unsettled_offsets:
            self._told_of_unsettled_offsets = True
            self._log.warning(
                "the committed offsets of group '%s' are used although an open transaction may change them: its coordinator is older than "
                "Kafka 2.5 and cannot wait for the transaction; before a consumer reads, call init_transactions() of the producer whose "
                "transaction sent offsets of its partitions, or records may be processed twice",
                group_id,
            )

    def _new_collector(self, settings: ConsumerSettings, host: Host) -> FetchCollector:
        converter = self._new_converter(settings, host)
        return FetchCollector(self._buffer, lock=host.lock, options=settings.read, converter=converter, reset_to=self._reset_to)

    def _new_converter(self, settings: ConsumerSettings, host: Host) -> RecordConverter:
        to = settings.on_decode_error
        deserializers = settings.key_deserializer, settings.value_deserializer, host.run_handlers
        if isinstance(to, str):
            return RecordConverter(*deserializers, on_decode_error(to, self._engine.log(on_decode_error.__module__)), keeps=settings.keeps)
        self.letters = DeadLetters(to.topic)
        return RecordConverter(*deserializers, self.letters.meet, self.letters.foresee, settings.keeps)

    def _new_stalls(self) -> Stalls:
        engine = self._engine
        return Stalls(
            self.subscription,
            engine.metadata,
            engine.network,
            self._topics,
            self._committed,
            rebalancing=self._is_rebalancing,
            patience_ms=self._api_timeout_ms,
            deferred=engine.deferred,
        )

    def _new_member(self, settings: GroupSettings, host: Host, spawn: Spawn) -> ClassicMember | ConsumerGroupMember:
        engine = self._engine
        holdings = Holdings(
            held=lambda: self.subscription.assignment if self.is_subscribed else frozenset(),
            assign=self._assign_from_group,
            watch=engine.metadata.set_topics,
            announce=self.announce,
        )
        parts: Mapping[str, Any] = {
            "holdings": holdings,
            "finder": engine.coordinators,
            "metadata": engine.metadata,
            "backoff": self._backoff,
            "spawn": spawn,
            "now": engine.now,
            "deferred": engine.deferred,
        }
        if settings.group_protocol == "consumer":
            return ConsumerGroupMember(settings, member_id=new_member_id(engine.random), **parts)
        return ClassicMember(settings, run_beside=lambda run: run_beside(run, engine.deferred, host), **parts)

    def _new_commits(self, settings: ConsumerSettings) -> Commits:
        return Commits(
            settings=settings,
            member=self.member,
            subscription=self.subscription,
            finder=self._engine.coordinators,
            metadata=self._engine.metadata,
            backoff=self._backoff,
            start=self._start_beside,
            announce=self._buffer.announce,
            now_ms=self._now_ms(),
            deferred=self._engine.deferred,
        )

    def _committed_positions(self, group_id: str, spawn: Spawn) -> CommittedPositions:
        return CommittedPositions(
            group_id=group_id,
            buffer=self._buffer,
            fetch=lambda partitions, unstable: self._fetch_committed(list(partitions), unstable),
            metadata=self._engine.metadata,
            spawn=spawn,
            now=self._engine.now,
            reset_to=self._reset_to,
        )

    def _start_beside(self, flow: Flow[T], what: str) -> Promise[T]:
        now_ms = self._now_ms()
        return self._engine.flows.start(flow, now_ms, deadline_ms=now_ms + self._api_timeout_ms, describe=what)

    def find_offsets(self, wanted: Mapping[TopicPartition, int], now_ms: int) -> Flow[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return, for each partition, the first offset at or after a time in ms; None if there is none.

        -1 finds the log end (with read_committed: the last stable offset), -2 its beginning. Raises as OffsetFinder.find() does.
        """
        self._engine.metadata.add_transient_topics({tp.topic for tp in wanted}, now_ms)
        return self._find_offsets(wanted)

    def _find_offsets(self, wanted: Mapping[TopicPartition, int]) -> Flow[dict[TopicPartition, OffsetAndTimestamp | None]]:
        try:
            return (yield from self._finder.find(wanted))
        finally:
            self._engine.metadata.clear_transient_topics()

    def partitions_for(self, topic: str) -> Flow[list[PartitionInfo]]:
        """Describe a topic's partitions."""
        retries = Retries(self._engine.metadata, self._backoff)
        return partitions_for(topic, retries, self._engine.now, may_create=self._may_create)

    def list_topics(self) -> Flow[dict[str, list[PartitionInfo]]]:
        """Describe every topic that the user may describe."""
        return list_topics()

    def close(self, now_ms: int) -> list[Promise[Any]]:
        """Stop reading; return the promises of the requests that close the fetch sessions."""
        self.subscription.assign((), now_ms)
        return self._fetcher.close_sessions(now_ms)

    def _follow_assignment(self, now_ms: int) -> None:
        self._buffer.drop_stale()
        self.counters.keep(self.subscription.topics)
        self._engine.metadata.set_topics(self.subscription.topics, now_ms)


def run_beside(run: Callable[[], T], deferred: deque[Callable[[], None]], host: Host) -> Promise[T]:
    """Let the driver soon call a function of the program, such as an assignor's, without the engine's lock.

    Return a promise of the function's result; it is settled under the lock. deferred: the engine's queue of deferred calls. run: the
    function.
    """
    promise: Promise[T] = Promise()

    def work() -> None:
        settle: Callable[[], bool]
        try:
            settle = partial(promise.resolve, run())
        except Exception as error:
            settle = partial(promise.reject, error)
        with suppress(*ENDED):
            host.change(lambda now_ms: settle())

    deferred.append(work)
    return promise

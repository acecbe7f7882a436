"""The commits of a consumer (CommitRequestManager in Java). Used under the engine's lock.

By default, the positions at the time of the commit are committed, that is, the offsets after the records that poll() has returned. Records
that a loop over the consumer has not received yet are excluded, and all records from the first unacknowledged one on (adr/0044). Only
poll() starts the auto-commit of every interval, because a program that requests more records is done with the earlier ones.

Commits of one consumer reach the coordinator in the order in which they were made. commit_async() sends at once, one request behind the
other on the coordinator's connection, and never retries: a retry could overtake a newer commit. commit() retries, so it begins when all
earlier commits are over. So does the commit before partitions are revoked. If the call that waits for that one ends first, later commits
wait until it is over, and no auto-commit begins. Callbacks are called in the same order, inside a later call.

A member of a group commits with the generation that it has when the commit is sent, and does not send a commit that the coordinator would
refuse.

Auto-commits leave out partitions that do not exist any more. For these a coordinator only answers UNKNOWN_TOPIC_OR_PARTITION, as for a
topic that was just created. The commit before partitions are revoked would be repeated until its time is over, and poll() would return no
records until then.

An old offset, committed for a topic that was deleted and created again, would make the group skip records. Positions in the old topic are
never committed, and its reader is told that they are lost. An offset that the program passes belongs to the topic that was known at that
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.flow import Flow, WaitAny
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED, Deferred
from levada.client.metadata.known_topics import error_of_partition
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.client.requests.fan_out import raise_first
from levada.client.requests.group_offsets import commit_offsets, commit_once
from levada.client.requests.retry import Retries
from levada.consumer.group.membership import Membership
from levada.consumer.group.requests import GroupSettings
from levada.consumer.positions.subscription_state import RECREATED, PartitionState, SubscriptionState
from levada.consumer.settings import ConsumerSettings
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    InvalidGroupIdError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitError,
    TopicRecreatedError,
)
from levada.types import AnyRecord, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

T = TypeVar("T")

_NO_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], Any]
"""The callback of commit_async(): the offsets, and the error; None on success."""


class Unacked(Protocol):
    """The records of acks() that the program acknowledges one by one."""

    def __len__(self) -> int:
        """Return how many records are not done. From any thread."""
        ...

    def oldest(self, state: PartitionState) -> AnyRecord | None:
        """Return the first record of an assigned partition that is not done; None if all are done."""
        ...

    def pauses(self, state: PartitionState) -> AnyRecord | None:
        """If an assigned partition is paused because of its unfinished records, return the first of them; else None."""
        ...


class Start(Protocol):
    """Starts a flow in the background, limited by default.api.timeout.ms."""

    def __call__(self, flow: Flow[T], what: str) -> Promise[T]:
        """Start a flow, and return a promise of its result. what: names the operation in a timeout error."""
        ...


class Commit(NamedTuple):
    """A commit of commit_async(). callback: None if a failure is to be logged."""

    offsets: Offsets
    done: Promise[None]
    callback: OnCommit | None


class Commits:
    """The commits of one consumer.

    member: the group membership; None without a group.id. announce: wakes a waiting poll(), so that it sees a new due_ms.
    """

    def __init__(
        self,
        *,
        settings: ConsumerSettings,
        member: Membership | None,
        subscription: SubscriptionState,
        finder: CoordinatorFinder,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        start: Start,
        announce: Callable[[], None],
        now_ms: int,
        deferred: Deferred,
    ) -> None:
        self.unacked: Unacked | None = None
        """Records to be acknowledged one by one, with acks(): by default nothing is committed past the first one."""
        self._notes_committed = settings.notes_committed
        self._committed: deque[Offsets] = deque()
        """Successful commits that newly_committed() has not returned yet, in order."""
        self._member = member
        self._interval_ms = interval_ms = settings.auto_commit_interval_ms
        self._subscription = subscription
        self._finder = finder
        self._metadata = metadata
        self._backoff = backoff
        self._start = start
        self._announce = announce
        self._log = deferred.log(__name__)
        self._made: deque[Commit] = deque()
        """The commit_async() calls whose callback has not been called yet, in order."""
        self._automatic: Promise[None] | None = None
        """The last auto-commit, while it is in flight."""
        self._last: Promise[None] | None = None
        """The last commit before partitions are revoked, while it is in flight."""
        self._failed_attempts = 0
        """How many auto-commits in a row failed with a retriable error."""
        self.due_ms = NEVER_MS if interval_ms is None else now_ms + interval_ms
        """When poll() is to auto-commit."""

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The group metadata for commits. Raises InvalidGroupIdError without a group.id."""
        return self._as_member.group

    @property
    def _as_member(self) -> Membership:
        if self._member is None:
            raise InvalidGroupIdError("offsets are committed for a group; give the consumer a group.id")
        return self._member

    def handed_out(self, left: Iterable[AnyRecord] = ()) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a commit without arguments commits. left: records of the last poll() that a loop has not received yet, in
        order.
        """
        first: dict[TopicPartition, AnyRecord] = {}
        for record in left:
            first.setdefault(TopicPartition(record.topic, record.partition), record)
        is_of_its_topic = self._is_of_its_topic()
        states = [state for state in self._subscription if state.has_position and is_of_its_topic(state.tp)]
        return {state.tp: self._up_to(state, first.get(state.tp)) for state in states}

    def _up_to(self, state: PartitionState, left: AnyRecord | None) -> OffsetAndMetadata:
        """Return the offset to commit for a partition.

        left: the first of its records that a loop has not received yet; None without one.
        """
        if left is None and self.unacked is not None:
            left = self.unacked.oldest(state)
        return OffsetAndMetadata(state.position, state.leader_epoch) if left is None else OffsetAndMetadata(left.offset, left.leader_epoch)

    def commit(self, offsets: Offsets) -> Flow[None]:
        """Commit these offsets after all earlier commits, and retry retriable errors.

        Raises TopicRecreatedError if a topic was deleted and created again meanwhile, the errors of Membership.for_commit(), errors of the
        coordinator (see Membership.refused()), and InvalidGroupIdError without a group.id.
        """
        snapshot = self._metadata.snapshot
        named = {tp: snapshot.topic_id(tp.topic) for tp in offsets}

        def fault_of(tp: TopicPartition) -> KafkaError | None:
            return None if self._is_still(named[tp], tp.topic) else _made_again(tp, offsets[tp].offset)

        return self._commit_after(self.earlier(), offsets, fault_of=fault_of)

    def commit_positions(self, offsets: Offsets) -> Flow[None]:
        """Commit these positions like commit(), but leave out topics that were deleted and created again meanwhile."""
        return self._commit_after(self.earlier(), offsets, still_wanted=self._is_of_its_topic())

    def _commit_after(
        self,
        earlier: Flow[None],
        offsets: Offsets,
        *,
        still_wanted: Callable[[TopicPartition], bool] = lambda tp: True,
        fault_of: Callable[[TopicPartition], KafkaError | None] = lambda tp: None,
    ) -> Flow[None]:
        """Wait for earlier commits, then commit these offsets.

        still_wanted, fault_of: check each partition before it is sent, as in commit_offsets().
        """
        member = self._as_member
        yield from earlier
        if not offsets:
            return
        while True:
            group = member.for_commit()
            try:
                retries = Retries(self._metadata, self._backoff)
                stored = yield from commit_offsets(self._finder, group, offsets, retries, still_wanted=still_wanted, fault_of=fault_of)
                break
            except BrokerError as error:
                if (caught_up := member.caught_up(error, group)) is None:
                    raise _told_apart(error, member.refused(error, group)) from None
            yield WaitAny([caught_up])
        self._note_committed({tp: at for tp, at in offsets.items() if tp in stored})

    def earlier(self) -> Flow[None]:
        """Return a flow that waits until all commits made so far have succeeded or failed."""
        others = [promise for promise in (self._automatic, self._last) if promise is not None]
        return _all_over([commit.done for commit in self._made] + others)

    def begin(self, offsets: Offsets, callback: OnCommit | None) -> Promise[None]:
        """Commit once, without waiting (commit_async()). Return a promise that settles when the commit has succeeded or failed.

        callback: called later with the offsets and the error. Raises InvalidGroupIdError.
        """
        member = self._as_member
        done = self._start(self._once(member, offsets, self._last), f"commit for group '{member.group.group_id}'")
        self._made.append(Commit(offsets, done, callback))
        return done

    @property
    def has_work_at_close(self) -> bool:
        """Whether at_close() has to commit or to wait for a commit."""
        is_under_way = bool(self._made) or self._automatic is not None or self._last is not None
        return is_under_way or (self._interval_ms is not None and bool(self.handed_out()))

    def at_close(self) -> Flow[None]:
        """Return a flow that waits for all earlier commits and then, with enable.auto.commit, commits the positions.

        It runs before the consumer is closed and before it gives up partitions.
        """
        earlier = self.earlier()
        return earlier if self._interval_ms is None else self._commit_after(earlier, self.handed_out(), still_wanted=self._is_as_read())

    def _is_as_read(self) -> Callable[[TopicPartition], bool]:
        """Return a function that checks a partition: whether it exists, and whether its topic is still the one that was read (see
        _is_of_its_topic()).
        """
        is_of_its_topic = self._is_of_its_topic()
        return lambda tp: self._exists(tp) and is_of_its_topic(tp)

    def _is_of_its_topic(self) -> Callable[[TopicPartition], bool]:
        """Return a function that checks a partition: whether its topic still has the topic id that the position belongs to. True if an id
        is unknown.
        """
        read_from = {state.tp: state.topic_id for state in self._subscription if not state.topic_is_assumed}
        return lambda tp: self._is_still(read_from.get(tp), tp.topic)

    def _is_still(self, topic_id: UUID | None, topic: str) -> bool:
        ids = topic_id, self._metadata.snapshot.topic_id(topic)
        return None in ids or ids[0] == ids[1]

    def _exists(self, tp: TopicPartition) -> bool:
        snapshot = self._metadata.snapshot
        is_gone = self._metadata.asks_for_all and tp.topic not in snapshot.topics
        return not is_gone and error_of_partition(tp, snapshot) is None

    @property
    def has_untold(self) -> bool:
        """Whether a commit was not reported to its callback or to the interceptors yet. May be read without the engine's lock."""
        return bool(self._made or self._committed)

    def newly_committed(self) -> list[Offsets]:
        """Return the offsets of the commits that have succeeded since the last call, in order. Empty unless interceptors are configured."""
        committed = list(self._committed)
        self._committed.clear()
        return committed

    def _note_committed(self, offsets: Offsets) -> None:
        for tp, at in offsets.items():
            if (state := self._subscription.find(tp)) is not None:
                state.committed(at.offset)
        if self._notes_committed and offsets:
            self._committed.append(offsets)

    def over(self) -> Commit | None:
        """Remove and return the oldest commit of commit_async(), so that its callback is called; None if there is none, or while it is in
        flight.
        """
        return self._made.popleft() if self._made and self._made[0].done.done else None

    def give_back(self, commit: Commit) -> None:
        """Put a commit of over() back as the oldest, because its callback could not be called."""
        self._made.appendleft(commit)

    def begin_automatic(self, now_ms: int) -> bool:
        """If an auto-commit is due, begin one of the records that earlier calls returned. Return whether it began.

        For a poll() that begins or waits.
        """
        if self._interval_ms is None or now_ms < self.due_ms:
            return False
        self.due_ms = now_ms + self._interval_ms
        is_as_read = self._is_as_read()
        offsets = {tp: at for tp, at in self.handed_out().items() if is_as_read(tp)}
        is_under_way = self._automatic is not None or self._last is not None
        if is_under_way or not offsets or not self._as_member.may_commit:
            return False
        self._automatic = self._start(self._once(self._as_member, offsets), f"automatic commit for group '{self.group.group_id}'")
        self._automatic.on_done(lambda done: self._end_automatic(done, now_ms))
        return True

    def begin_last(self) -> Promise[None] | None:
        """Begin the work of at_close() before partitions are revoked, and return a promise that settles when it is done. None if there is
        nothing to commit and no commit to wait for.
        """
        if not self.has_work_at_close:
            return None
        done = self._start(self.at_close(), f"the commit before partitions of group '{self.group.group_id}' are given up")
        self._last = done
        done.on_done(self._end_last)
        return done

    def _end_last(self, done: Promise[None]) -> None:
        if self._last is done:
            self._last = None
        if done.error is not None and not isinstance(done.error, ENDED):
            self._log.warning("what was read last may not be committed, and is read again by others: %s", done.error)

    def _end_automatic(self, done: Promise[None], begun_ms: int) -> None:
        self._automatic = None
        if done.error is None:
            self._failed_attempts = 0
        elif isinstance(done.error, KafkaError) and done.error.retriable:
            self._repeat_automatic(done.error, begun_ms)
        elif not isinstance(done.error, ENDED):
            self._log.warning("automatic commit failed: %s", done.error)

    def _repeat_automatic(self, error: KafkaError, begun_ms: int) -> None:
        """Make the next auto-commit due after a pause, which grows with each failure.

        One failure is normal in a rebalance or when a coordinator changes. Only the second failure in a row is logged as a warning.
        """
        if self._failed_attempts == 0:
            self._log.info("automatic commit failed, and is repeated: %s", error)
        elif self._failed_attempts == 1:
            self._log.warning("automatic commit failed again, and is repeated until one succeeds: %s", error)
        self.due_ms = min(self.due_ms, begun_ms + self._backoff.delay_ms(self._failed_attempts))
        self._failed_attempts += 1
        self._announce()

    def _once(self, member: Membership, offsets: Offsets, after: Promise[None] | None = None) -> Flow[None]:
        if after is not None:
            yield WaitAny([after])
        if not offsets:
            return
        group = member.for_commit()
        answer = yield from commit_once(self._finder, group, offsets, self._metadata)
        if answer.refresh:
            self._metadata.request_update()
        try:
            raise_first(lambda tp: f"{tp}: commit for group '{group.group_id}'", offsets, answer.errors, answer.found)
        except BrokerError as error:
            raise _told_apart(error, member.refused(error, group)) from None
        if answer.again:
            why = "; ".join(f"{tp}: {reason}" for tp, reason in answer.again.items())
            raise RetriableCommitError(f"offsets of group '{group.group_id}' may not be committed, and can be committed again: {why}")
        self._note_committed(offsets)


def _all_over(promises: Iterable[Promise[None]]) -> Flow[None]:
    for promise in promises:
        yield WaitAny([promise])


def _made_again(tp: TopicPartition, offset: int) -> TopicRecreatedError:
    text = f"{tp}: {RECREATED}, and offset {offset} was not committed for the new one; if it is one of that, commit it again"
    return TopicRecreatedError(text, partition=tp, offset=offset)


def _told_apart(error: BrokerError, meant: KafkaError) -> KafkaError:
    """Return `meant`, the error that the group member raises for a refused commit, with the outcomes of all partitions from `error`."""
    meant.outcomes = error.outcomes
    return meant


def commit_failed(settings: GroupSettings, code: ErrorCode) -> CommitFailedError:
    """Return the error of a consumer that is not a member of its group, or not any more."""
    return CommitFailedError(
        f"offsets of group '{settings.group_id}' were not committed: this consumer is no member of it any more, usually because it did not "
        f"call poll() for max.poll.interval.ms={settings.max_poll_interval_ms}. Another member may have its partitions, and reads them "
        "again from the last commit; the next poll() joins again. Lower max.poll.records, or raise max.poll.interval.ms",
        code=code,
    )


def commit_fenced(settings: GroupSettings) -> FencedInstanceIdError:
    """Return the error of a static member whose group.instance.id is used by another consumer."""
    return FencedInstanceIdError(
        f"offsets of group '{settings.group_id}' were not committed: another consumer has joined with "
        f"group.instance.id='{settings.group_instance_id}'; close this one"
    )


def rebalance_in_progress(group_id: str) -> RebalanceInProgressError:
    """Return the error of a member whose group is rebalancing."""
    return RebalanceInProgressError(
        f"offsets of group '{group_id}' were not committed: it is being rebalanced. Call poll(), which takes part in that, and commit "
        "again what is still assigned then"
    )


def refused_with_epoch(settings: GroupSettings, error: BrokerError, epoch: int) -> KafkaError:
    """Return the error to raise for a refused commit of a member of a consumer group (KIP-848)."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return RetriableCommitError(
            f"offsets of group '{settings.group_id}' were not committed: its coordinator has a newer epoch for this member than {epoch}; "
            "commit again, after the next heartbeat"
        )
    if error.code is ErrorCode.FENCED_INSTANCE_ID:
        return commit_fenced(settings)
    return commit_failed(settings, error.code) if error.code in _NO_MEMBER else error

"""What a consumer commits for its group (behaviour 17.3). Used under the engine's lock.

Only what was handed out is committed by default: the positions as they are when the program asks for it, less what a loop over the consumer
has not been given yet. An automatic commit is begun by a call for records alone, since whoever asks for more is done with what came before.

Commits of one consumer arrive in the order in which they were made. Those that nobody waits for are sent at once, one behind the other on
the coordinator's connection, and are never repeated, since a repeated one could overtake a newer one. A commit that is waited for is
repeated while that may help, so it begins when all earlier ones are over. Who made a commit is told in the same order, inside a later call.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from levada.client.backoff import ExponentialBackoff
from levada.client.coordinator_finder import CoordinatorFinder
from levada.client.deferred_log import DeferredLog
from levada.client.ended import ENDED
from levada.client.fan_out import raise_first
from levada.client.group_offsets import commit_offsets, commit_once
from levada.client.metadata import Metadata
from levada.client.retry import Retries
from levada.clock import NEVER_MS
from levada.consumer.subscription_state import SubscriptionState
from levada.errors import InvalidGroupIdError, KafkaError, RetriableCommitError
from levada.flow import Flow, WaitAny
from levada.promise import Promise
from levada.types import AnyRecord, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

T = TypeVar("T")

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], Any]
"""The user's callback: what was to be committed, and why it was not."""


class Start(Protocol):
    """Runs a flow beside its caller, for as long as a call without a timeout of its own may take."""

    def __call__(self, flow: Flow[T], what: str) -> Promise[T]:
        """Return a promise of the flow's result."""
        ...


class Commit(NamedTuple):
    """A commit that was made without waiting for it. callback: None for one whose failure is to be logged."""

    offsets: Offsets
    done: Promise[None]
    callback: OnCommit | None


class Commits:
    """See the module's theory. group_id: None without one. interval_ms: between automatic commits, None for none.

    announce: wakes a call that waits for records, so that it sees a new due_ms.
    """

    def __init__(
        self,
        *,
        group_id: str | None,
        interval_ms: int | None,
        subscription: SubscriptionState,
        finder: CoordinatorFinder,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        start: Start,
        announce: Callable[[], None],
        now_ms: int,
        deferred: deque[Callable[[], None]],
    ) -> None:
        self._group = None if group_id is None else ConsumerGroupMetadata(group_id)
        self._interval_ms = interval_ms
        self._subscription = subscription
        self._finder = finder
        self._metadata = metadata
        self._backoff = backoff
        self._start = start
        self._announce = announce
        self._log = DeferredLog(logging.getLogger(__name__), deferred)
        self._made: deque[Commit] = deque()
        """What was not waited for, in order, until who made it was told."""
        self._automatic: Promise[None] | None = None
        """The last automatic commit, while it is under way."""
        self._failed_attempts = 0
        """How many automatic commits failed since one succeeded, for a reason that may pass."""
        self.due_ms = NEVER_MS if interval_ms is None else now_ms + interval_ms
        """When a call for records is to commit."""

    @property
    def group(self) -> ConsumerGroupMetadata:
        """On whose behalf offsets are committed. Raises InvalidGroupIdError without a group.id."""
        if self._group is None:
            raise InvalidGroupIdError("offsets are committed for a group; give the consumer a group.id")
        return self._group

    def handed_out(self, left: Iterable[AnyRecord] = ()) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of every partition that has one. left: records of the last poll that a loop was not given yet, in order."""
        first: dict[TopicPartition, AnyRecord] = {}
        for record in left:
            first.setdefault(TopicPartition(record.topic, record.partition), record)
        return {
            state.tp: OffsetAndMetadata(first[state.tp].offset, first[state.tp].leader_epoch)
            if state.tp in first
            else OffsetAndMetadata(state.position, state.leader_epoch)
            for state in self._subscription
            if state.has_position
        }

    def commit(self, offsets: Offsets) -> Flow[None]:
        """Commit, after all earlier commits, trying again while that may help."""
        group = self.group
        yield from self.earlier()
        if offsets:
            yield from commit_offsets(self._finder, group, offsets, Retries(self._metadata, self._backoff))

    def earlier(self) -> Flow[None]:
        """Wait until all commits made so far are over, whatever became of them."""
        under_way = [commit.done for commit in self._made]
        if self._automatic is not None:
            under_way.append(self._automatic)
        for promise in under_way:
            yield WaitAny([promise])

    def begin(self, offsets: Offsets, callback: OnCommit | None) -> Promise[None]:
        """Commit once, without waiting for it. Raises InvalidGroupIdError."""
        done = self._start(self._once(self.group, offsets), f"commit for group '{self.group.group_id}'")
        self._made.append(Commit(offsets, done, callback))
        return done

    @property
    def has_work_at_close(self) -> bool:
        """Whether something is left to be committed, or to be waited for."""
        return bool(self._made) or self._automatic is not None or (self._interval_ms is not None and bool(self.handed_out()))

    def at_close(self) -> Flow[None]:
        """Commit what was handed out, if that is automatic, and wait for earlier commits in any case."""
        return self.earlier() if self._interval_ms is None else self.commit(self.handed_out())

    @property
    def has_untold(self) -> bool:
        """Whether the maker of a commit is to be told yet. May be read without the engine's lock."""
        return bool(self._made)

    def over(self) -> Commit | None:
        """Return the next commit whose maker is to be told, and forget it; None while the oldest one is under way."""
        return self._made.popleft() if self._made and self._made[0].done.done else None

    def begin_automatic(self, now_ms: int) -> bool:
        """A call for records begins, or waits: commit what earlier ones handed out, when that is due. True when a commit was begun."""
        if self._interval_ms is None or now_ms < self.due_ms:
            return False
        self.due_ms = now_ms + self._interval_ms
        offsets = self.handed_out()
        if self._automatic is not None or not offsets:
            return False
        self._automatic = self._start(self._once(self.group, offsets), f"automatic commit for group '{self.group.group_id}'")
        self._automatic.on_done(lambda done: self._end_automatic(done, now_ms))
        return True

    def _end_automatic(self, done: Promise[None], begun_ms: int) -> None:
        self._automatic = None
        if done.error is None:
            self._failed_attempts = 0
        elif isinstance(done.error, KafkaError) and done.error.retriable:
            self._repeat_automatic(done.error, begun_ms)
        elif not isinstance(done.error, ENDED):
            self._log.log(logging.WARNING, "%s", f"automatic commit failed: {done.error}")

    def _repeat_automatic(self, error: KafkaError, begun_ms: int) -> None:
        """Make the next one due after a pause that grows. The log is told once, until one succeeds."""
        if not self._failed_attempts:
            self._log.log(logging.WARNING, "%s", f"automatic commit failed, and is repeated until one succeeds: {error}")
        self.due_ms = min(self.due_ms, begun_ms + self._backoff.delay_ms(self._failed_attempts))
        self._failed_attempts += 1
        self._announce()

    def _once(self, group: ConsumerGroupMetadata, offsets: Offsets) -> Flow[None]:
        if not offsets:
            return
        answer = yield from commit_once(self._finder, group, offsets, self._metadata)
        if answer.refresh:
            self._metadata.request_update()
        raise_first(lambda tp: f"{tp}: commit for group '{group.group_id}'", offsets, answer.errors)
        if answer.again:
            why = "; ".join(f"{tp}: {reason}" for tp, reason in answer.again.items())
            raise RetriableCommitError(f"offsets of group '{group.group_id}' may not be committed, and can be committed again: {why}")

"""A member of a classic group: its state, its heartbeats, and when it has to join again (ConsumerCoordinator in Java).

`classic_states` has the state machine, `joining` the requests of a rebalance, `classic_rebalance` what happens in the program's thread or
task. This file puts them together: the poller that the engine runs, and what the coordinator, the program and metadata may change at any
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.base.flow import CallerFlow, Flow
from levada.base.promise import Promise
from levada.base.state_table import following
from levada.client.driver_interface import ENDED, Deferred, raise_bug
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.fan_out import Spawn
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.counters import GroupCounters
from levada.consumer.group.classic_rebalance import ClassicRebalance
from levada.consumer.group.classic_states import TRANSITIONS, MemberEvent, MemberState
from levada.consumer.group.consumer_protocol import subscription_bytes
from levada.consumer.group.heartbeats import Heartbeats
from levada.consumer.group.joining import Joining, Led, Received
from levada.consumer.group.leading import have_changed
from levada.consumer.group.listener_calls import Caller
from levada.consumer.group.membership import Holdings, Subscribed
from levada.consumer.group.requests import ON_HEARTBEAT_ERROR, ClassicReaction, Generation, GroupSettings, Requests, refusal
from levada.consumer.positions.commits import commit_failed, commit_fenced, rebalance_in_progress
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConnectError, IllegalStateError, KafkaError, broker_error
from levada.groups import MemberSubscription
from levada.types import ConsumerGroupMetadata

NO_TOPICS: frozenset[str] = frozenset()


class ClassicMember:
    """A member of a classic group. It is a Membership, a Joiner and a poller, and is used under the engine's lock.

    run_beside: runs a function of the program soon, without the lock.
    """

    def __init__(
        self,
        settings: GroupSettings,
        *,
        holdings: Holdings,
        finder: CoordinatorFinder,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        now: Now,
        run_beside: Callable[[Callable[[], Any]], Promise[Any]],
        deferred: Deferred,
    ) -> None:
        self.settings = settings
        self.holdings = holdings
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self._last_generation = Generation()
        self.subscribed: Subscribed | None = None
        self.topics = NO_TOPICS
        self.received: Received | None = None
        """An assignment that the program has not taken yet."""
        self.error: BaseException | None = None
        """Why the member cannot join its group; the next poll() raises it."""
        self.counters = GroupCounters()
        self.is_prepared = False
        """Whether the program has revoked the partitions that it must revoke before the next join (onJoinPrepare in Java)."""
        self._metadata = metadata
        self._spawn = spawn
        self._now = now
        self._log = deferred.log(__name__)
        self._group = CoordinatedGroup(settings.group_id, finder)
        self._requests = Requests(settings, self._group)
        self._joining = Joining(
            self,
            settings=settings,
            requests=self._requests,
            group=self._group,
            metadata=metadata,
            backoff=backoff,
            run_beside=run_beside,
        )
        self._beats = Heartbeats(
            interval_ms=settings.heartbeat_interval_ms, backoff=backoff, max_poll_interval_ms=settings.max_poll_interval_ms
        )
        self._rebalance_steps = ClassicRebalance(self, settings.assignors, holdings)
        self._user_data: Mapping[str, bytes | None] = {}
        self._rejoin_reason: str | None = None
        self._joined_topics = NO_TOPICS
        self._rebalance: Promise[Received | None] | None = None
        self._beat: Promise[ErrorCode | None] | None = None
        self._asks = False
        self._led: Led | None = None
        self._watched = NO_TOPICS
        self._seen_version = -1
        self._began_ms = 0

    # Calls of the program

    def subscribe(self, subscribed: Subscribed, now_ms: int) -> None:
        """Subscribe to these topics from the next poll() on. Raises IllegalStateError for a pattern that brokers are to match."""
        if subscribed.broker_pattern:
            raise IllegalStateError(
                "brokers match patterns for groups of the consumer protocol only: set group.protocol=consumer, or give pattern= a str"
            )
        began = self.subscribed is None
        self.subscribed = subscribed
        self.topics = subscribed.topics
        self._seen_version = self._metadata.version
        self._watch(now_ms)
        if subscribed.pattern is not None and self.has_generation:
            # Metadata may know only some topics so far. The member keeps its partitions of those, whether or not the others exist.
            self.topics = self._matching()
        if began:
            self._beats.returned(now_ms)
            self.rejoin("the consumer has subscribed")
        elif self.topics != self._joined_topics and subscribed.pattern is None:
            self.rejoin("the subscription has changed")

    def enforce_rebalance(self, reason: str) -> None:
        """Make the next poll() start a rebalance of the group."""
        self.rejoin(reason)

    def entered(self, now_ms: int) -> None:
        """Note that the program has called poll(): the timer of max.poll.interval.ms stops."""
        self._beats.entered(now_ms)

    def returned(self, now_ms: int) -> None:
        """Note that poll() has returned to the program: the timer of max.poll.interval.ms starts."""
        self._beats.returned(now_ms)

    # On whose behalf offsets are committed

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The group metadata for commits. Without a subscription it is only the group id. Until the member has joined for the first time,
        it has no generation.

        As in Java, a member that has lost its membership keeps its last generation until it gets a new one. Without a generation, a
        coordinator would accept the offsets of a transaction even for partitions that other members own by now.
        """
        if self.subscribed is None:
            return ConsumerGroupMetadata(self.settings.group_id)
        who = self.generation if self.has_generation else self._last_generation
        return ConsumerGroupMetadata(self.settings.group_id, who.number, who.member_id, self.settings.group_instance_id)

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would accept a commit now."""
        return self.subscribed is None or self.state is MemberState.STABLE

    def for_commit(self) -> ConsumerGroupMetadata:
        """Return `group` if offsets may be committed. Raises RebalanceInProgressError during a rebalance, or CommitFailedError without a
        generation: before the first one, or after it was lost.
        """
        if self.may_commit:
            return self.group
        if self.has_generation:
            raise rebalance_in_progress(self.settings.group_id)
        raise commit_failed(self.settings, ErrorCode.UNKNOWN_MEMBER_ID)

    def refused(self, error: BrokerError, group: ConsumerGroupMetadata) -> KafkaError:
        """Handle a refused commit: change the membership as the error says, and return the error to raise."""
        if self.subscribed is None:
            return error
        is_current = self.has_generation and group == self.group
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("a commit was refused, as the group is being rebalanced")
            return rebalance_in_progress(self.settings.group_id)
        if error.code not in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            return error
        if not is_current and self.has_generation:
            return rebalance_in_progress(self.settings.group_id)
        if is_current:
            self._expel(error, keeps_id=error.code is ErrorCode.ILLEGAL_GENERATION)
        if error.code is ErrorCode.FENCED_INSTANCE_ID and is_current:
            return commit_fenced(self.settings)
        return commit_failed(self.settings, error.code)

    def for_look_up(self) -> ConsumerGroupMetadata:
        """Return only the group id: a classic group returns its committed offsets to any client."""
        return ConsumerGroupMetadata(self.settings.group_id)

    def caught_up(self, error: BrokerError, group: ConsumerGroupMetadata) -> Promise[None] | None:
        """Return None: a commit that a classic group has refused will be refused again."""
        return None

    @property
    def has_generation(self) -> bool:
        """Whether the member has a generation that it does not know to be lost."""
        return self.generation.number >= 0

    # Pending work

    @property
    def has_pending_work(self) -> bool:
        """Whether poll() has to do work for the group before it returns records."""
        if self.received is not None:
            return True
        wants_to_join = self._rejoin_reason is not None and self._rebalance is None
        # While no topic matches the pattern, there is no reason to join.
        return wants_to_join and bool(self.topics or self.has_generation or self.error)

    def do_pending_work(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """See Membership."""
        return self._rebalance_steps.run(caller, deadline_ms)

    def give_up(self, caller: Caller) -> CallerFlow[None]:
        """Revoke all partitions before unsubscribe() or close()."""
        return self._rebalance_steps.give_up_all(caller)

    def take_error(self) -> BaseException | None:
        """Return the error because of which the member cannot be in its group; None if there is none.

        It is returned once, or every time if it is fatal, as after another member has taken the group.instance.id.
        """
        error, self.error = self.error, self.final_error
        return error

    @property
    def final_error(self) -> KafkaError | None:
        """See Membership."""
        return self.error if isinstance(self.error, BrokerError) and self.error.fatal else None

    def begin_join(self, user_data: Mapping[str, bytes | None]) -> None:
        """Let the engine send JoinGroup. user_data: the user data in this member's subscription, by the name of the assignor."""
        self._user_data = user_data
        reason, self._rejoin_reason = self._rejoin_reason or "", None
        self._joined_topics = self.topics
        # The next leader assigns by its metadata at that time. Changes until then do not need one more rebalance.
        self._led = None
        self._rebalance = self._spawn.start(self._joining.run(reason))
        self._began_ms = self._now.ms
        self._rebalance.on_done(self._end_rebalance)

    def _end_rebalance(self, done: Promise[Received | None]) -> None:
        self._rebalance = None
        if isinstance(done.error, ENDED):
            return
        if done.error is not None:
            self.counters.failed.note(1, self._now.ms)
            self._expel(done.error, keeps_id=True)
            self.error = done.error
        elif (received := done.result()) is not None:
            self.received, self._led, self._watched = received, received.led, NO_TOPICS
            self.move(MemberEvent.SYNCED)
            self.counters.rebalanced(self._began_ms, self._now.ms)
            self._watch(self._now.ms)
            self._look_at_led()
        self.holdings.announce()

    def checked_assignment(self) -> Received | None:
        """Return the received assignment; None without one.

        If it has a topic that is not subscribed to any more, drop it, request another rebalance, and return None.
        """
        received, subscribed = self.received, self.subscribed
        if received is None or subscribed is None:
            return None
        if all(subscribed.covers(tp.topic) for tp in received.assignment.partitions):
            return received
        self.received, self.is_prepared = None, False
        self.rejoin("the subscription has changed since the member joined")
        return None

    def adopt(self, now_ms: int) -> None:
        """Make the received assignment the program's assignment."""
        assert self.received is not None
        self.holdings.assign(self.received.assignment.partitions, now_ms)
        self.received, self.is_prepared = None, False

    def rejoin(self, reason: str) -> None:
        """Request that the next poll() joins again, after the program has revoked the partitions that it must revoke.

        reason: a text for the coordinator, in JoinGroup (KIP-800). Of several reasons before a join, the first one is sent.
        """
        if self._rejoin_reason is None:
            self._rejoin_reason = reason
            self.holdings.announce()

    # Changes by a rebalance

    def move(self, event: MemberEvent) -> None:
        """Change the state by an event, as TRANSITIONS says."""
        self.state = following(TRANSITIONS, self.state, event, f"a member of group '{self.settings.group_id}'")
        if event is MemberEvent.JOINED:
            self._beats.begin(self._now.ms)

    def offers(self) -> list[tuple[str, bytes]]:
        """Return the subscription of this member for each assignor, in order of preference (JoinGroup's protocols)."""
        owned = tuple(self.holdings.held())
        said = MemberSubscription(self._joined_topics, owned, self.generation.number, self.settings.client_rack or None)
        return [
            (assignor.NAME, subscription_bytes(said._replace(user_data=self._user_data.get(assignor.NAME))))
            for assignor in self.settings.assignors
        ]

    def take_generation(self, generation: Generation) -> None:
        """Store the generation that the coordinator has given."""
        self.generation = generation

    def lose(self, *, keeps_id: bool) -> None:
        """Lose the generation, and with it the partitions. keeps_id: whether the member id stays valid."""
        if self.has_generation:
            self._last_generation = self.generation
        self.generation = Generation(member_id=self.generation.member_id if keeps_id else "")
        self.received = self._led = None
        self.is_prepared = not self.holds_partitions
        self._beats.end()
        self.move(MemberEvent.LOST)
        if self._rejoin_reason is None and self.holds_partitions:
            self._rejoin_reason = "the member was not in the group any more"

    @property
    def holds_partitions(self) -> bool:
        """Whether the program has partitions that it has not revoked."""
        return bool(self.holdings.held())

    def watch_topics(self, topics: frozenset[str]) -> None:
        """Request metadata of these topics in addition to those of the subscription."""
        self._watched = topics
        self._watch(self._now.ms)

    def asks(self, asks: bool) -> None:
        """Note whether a JoinGroup or SyncGroup is in flight. No heartbeat is sent then, because these requests wait for other members."""
        self._asks = asks

    def _watch(self, now_ms: int) -> None:
        assert self.subscribed is not None
        led = self._led.topics if self._led is not None else NO_TOPICS
        self.holdings.watch(None if self.subscribed.pattern is not None else self.topics | led | self._watched, now_ms)

    def _expel(self, error: BaseException, *, keeps_id: bool) -> None:
        """Lose the membership because of an error. The next poll() joins again, unless it raises an error first.

        keeps_id: whether the member id is used again.
        """
        self._cancel_rebalance()
        self.lose(keeps_id=keeps_id)
        self._rejoin_reason = f"the member was not in the group any more: {error}"
        if not (isinstance(error, BrokerError) and error.code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)):
            self.error = error
        self.holdings.announce()

    def _cancel_rebalance(self) -> None:
        if self._rebalance is not None:
            rebalance, self._rebalance = self._rebalance, None
            rebalance.forget(self._end_rebalance)
            self._spawn.cancel(rebalance)
        if self._beat is not None:
            self._spawn.cancel(self._beat)

    # Leaving

    def leave(self, reason: str, now_ms: int, *, tells: bool | None) -> Flow[None]:
        """Leave the group; return the flow that sends LeaveGroup.

        tells: whether to send LeaveGroup; None sends it unless the member is static. Nothing is sent without a member id.
        """
        if tells is None:
            tells = self.settings.group_instance_id is None
        member_id = self.generation.member_id
        self._drop_membership()
        self.subscribed, self.topics, self._joined_topics = None, NO_TOPICS, NO_TOPICS
        self._last_generation = Generation()
        self.error = None
        return self._send_leave(member_id if tells else "", reason)

    def _drop_membership(self) -> None:
        self._cancel_rebalance()
        self.lose(keeps_id=False)
        self._rejoin_reason = None
        self._watched = NO_TOPICS

    def _send_leave(self, member_id: str, reason: str) -> Flow[None]:
        if not member_id:
            return
        try:
            answer = yield from self._requests.leave(member_id, reason)
            for code in (answer.error_code, *(member.error_code for member in answer.members)):
                if code:
                    raise broker_error(code, "LeaveGroup")
        except ENDED:
            raise
        except KafkaError as error:
            text = "group '%s' was not told that its member %s leaves, and waits for it for session.timeout.ms: %s"
            self._log.info(text, self.settings.group_id, member_id, error)

    def _leave_unused(self) -> None:
        """Leave the group because poll() was not called for max.poll.interval.ms. A static member sends no request for that."""
        settings = self.settings
        limit_s = settings.max_poll_interval_ms / 1000
        reason = f"no call for records for {limit_s:g} s (max.poll.interval.ms)"
        member_id = self.generation.member_id if settings.group_instance_id is None else ""
        self._drop_membership()
        self._rejoin_reason = f"the member had left: {reason}"
        self._log.warning(
            "left group '%s': %s, so its partitions go to other members, who read again what is not committed; the next call joins again. "
            "Take less with each call (max.poll.records), or give it more time (max.poll.interval.ms)",
            settings.group_id,
            reason,
        )
        self._spawn.start(self._send_leave(member_id, reason)).on_done(raise_bug)

    # The poller

    def poll(self, now_ms: int) -> int:
        """Handle changed metadata, leave after max.poll.interval.ms, or send a heartbeat, if it is time. Return the time, in ms, of the
        next poll.
        """
        if self.subscribed is None:
            return NEVER_MS
        if self._metadata.version > self._seen_version:
            self._seen_version = self._metadata.version
            self._look_at_metadata()
        if not self.generation.member_id:
            return NEVER_MS
        if now_ms >= self._beats.missed_ms:
            self._leave_unused()
            return NEVER_MS
        if self._asks or self._beat is not None:
            return self._beats.missed_ms
        if now_ms >= self._beats.due_ms:
            self._beats.sent()
            generation = self.generation
            self._beat = self._spawn.start(self._send_heartbeat(generation))
            self._beat.on_done(lambda done: self._end_heartbeat(done, generation, now_ms))
        return min(self._beats.due_ms, self._beats.missed_ms)

    def _matching(self) -> frozenset[str]:
        assert self.subscribed is not None
        return self.subscribed.matching(self._metadata.snapshot, with_internal=not self.settings.exclude_internal_topics)

    def _look_at_metadata(self) -> None:
        assert self.subscribed is not None
        self.topics = self._matching()
        if self.subscribed.pattern is not None and self.topics != self._joined_topics:
            self.rejoin("the topics that match the pattern have changed")
            self.holdings.announce()
        self._look_at_led()

    def _look_at_led(self) -> None:
        """If this member leads the group and partitions have changed since it assigned them, rejoin."""
        led = self._led
        if led is not None and have_changed(led.layouts, led.topics, self._metadata.snapshot, with_racks=led.with_racks):
            self._led = None
            self.rejoin("the partitions of the group's topics have changed")

    def _send_heartbeat(self, generation: Generation) -> Flow[ErrorCode | None]:
        """Send a heartbeat; return the error code of the answer, None without an answer."""
        try:
            answer = yield self._requests.heartbeat(generation)
        except ENDED:
            raise
        except ConnectError:
            return None
        return ErrorCode.of(answer.error_code)

    def _end_heartbeat(self, done: Promise[ErrorCode | None], generation: Generation, sent_ms: int) -> None:
        self._beat = None
        if isinstance(done.error, ENDED):
            return
        if done.error is not None:
            self._expel(done.error, keeps_id=True)
            return
        code = done.result()
        self.counters.heard_ms = self._now.ms if code is not None else self.counters.heard_ms
        reaction = ClassicReaction.REFIND if code is None else ON_HEARTBEAT_ERROR.get(code, ClassicReaction.RAISE)
        self._beats.answered(sent_ms, self._now.ms, ok=code is ErrorCode.NONE or reaction is ClassicReaction.REJOIN)
        # If a JoinGroup was sent meanwhile, its answer counts instead.
        if code is not ErrorCode.NONE and generation == self.generation and self.state is not MemberState.PREPARING_REBALANCE:
            self._heed(reaction, code)

    def _heed(self, reaction: ClassicReaction, code: ErrorCode | None) -> None:
        if reaction is ClassicReaction.REFIND:
            self._group.finder.forget(CoordinatorKind.GROUP, self.settings.group_id)
        elif reaction is ClassicReaction.REJOIN:
            if self.state is MemberState.STABLE:
                self.rejoin("the group is being rebalanced")
        elif reaction is not ClassicReaction.RETRY and code is not None:
            error = refusal(self.settings, code, "this member's heartbeat")
            self._expel(error, keeps_id=reaction is not ClassicReaction.LOSE_MEMBERSHIP)

"""A member of a consumer group (KIP-848): its state, its heartbeats, and how it follows their answers (ConsumerMembershipManager in Java).

`consumer_states` has the state machine, `consumer_heartbeat` the contents of heartbeats and the reactions to errors, `reconciliation` what
happens in the program's thread or task. This file puts them together: the poller that the engine runs, and what the coordinator, the
program and metadata may change at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.base.flow import CallerFlow, Flow, at_once
from levada.base.promise import Promise
from levada.base.state_table import following
from levada.client.driver_interface import ENDED, Deferred, raise_bug
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.fan_out import Spawn
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.counters import GroupCounters
from levada.consumer.group.consumer_heartbeat import (
    JOIN_EPOCH,
    HeartbeatReaction,
    Identity,
    Owned,
    SentFields,
    heartbeat,
    owned_of,
    reaction_to,
    refusal,
)
from levada.consumer.group.consumer_requests import ConsumerRequests
from levada.consumer.group.consumer_states import FOLLOWS_TARGETS, IN_GROUP, LOST, TRANSITIONS, ConsumerMemberEvent, ConsumerMemberState
from levada.consumer.group.heartbeats import Heartbeats
from levada.consumer.group.instance_release import InstanceRelease
from levada.consumer.group.listener_calls import Caller
from levada.consumer.group.membership import Holdings, Subscribed
from levada.consumer.group.reconciliation import Reconciliation
from levada.consumer.group.requests import GroupSettings
from levada.consumer.group.topic_names import TargetNames
from levada.consumer.positions.commits import commit_failed, refused_with_epoch
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from levada.types import ConsumerGroupMetadata, TopicPartition

NO_TOPICS: frozenset[str] = frozenset()
NOTHING: Mapping[TopicPartition, UUID] = {}

_MAY_COMMIT = IN_GROUP - {ConsumerMemberState.JOINING}
_TAKES_UP = FOLLOWS_TARGETS - {ConsumerMemberState.ACKNOWLEDGING}
"""The states in which a new target assignment is followed at once."""
_MAY_JOIN = frozenset({ConsumerMemberState.UNSUBSCRIBED, ConsumerMemberState.FENCED, ConsumerMemberState.STALE})


class ConsumerGroupMember:
    """A member of a consumer group. It is a Membership and a poller, and is used under the engine's lock.

    member_id: a unique id that stays the same for the life of the consumer (KIP-1082).
    """

    def __init__(
        self,
        settings: GroupSettings,
        *,
        member_id: str,
        holdings: Holdings,
        finder: CoordinatorFinder,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        now: Now,
        deferred: Deferred,
    ) -> None:
        self.settings = settings
        self.holdings = holdings
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self._last_epoch = JOIN_EPOCH
        self._is_in_group = False
        self.subscribed: Subscribed | None = None
        self.current: Mapping[TopicPartition, UUID] = NOTHING
        """The current assignment, which heartbeats report to the coordinator."""
        self._owned: frozenset[Owned] = frozenset()
        self._read_topics = NO_TOPICS
        self.taking: Mapping[TopicPartition, UUID] | None = None
        """The assignment that the program is reconciling. Once begun, it stays the same, even if the target changes meanwhile."""
        self._has_begun = False
        self.error: KafkaError | None = None
        """The error that the next poll() raises."""
        self.counters = GroupCounters()
        self._identity = Identity(settings.group_id, member_id, settings.group_instance_id)
        self._matched = NO_TOPICS
        """The topics that are subscribed to by name, or that match a pattern in the client."""
        self._target: frozenset[Owned] | None = None
        self.is_new = True
        """Whether no assignment was taken since the member joined. The listener is called for the first one even if it is empty."""
        self._sent_fields: SentFields | None = None
        self._metadata = metadata
        self._spawn = spawn
        self._now = now
        self._log = deferred.log(__name__)
        self._group = CoordinatedGroup(settings.group_id, finder)
        self._requests = ConsumerRequests(self._identity, self._group)
        self._beats = Heartbeats(interval_ms=NEVER_MS, backoff=backoff, max_poll_interval_ms=settings.max_poll_interval_ms)
        self._reconciliation = Reconciliation(self, holdings)
        self._release = InstanceRelease(self._identity, settings.session_timeout_ms, spawn, now, self._log)
        self._beat: Promise[ConsumerGroupHeartbeatResponse | None] | None = None
        self._fenced = 0
        """How often in a row the coordinator has fenced the member."""
        self._heard: Promise[None] = Promise()
        self._names = TargetNames(metadata, spawn, self._learned_names)
        self._seen_version = -1
        self._began_ms = 0

    # Calls of the program

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the subscription, or those that match its pattern. If brokers match the pattern, the topics of the assigned
        partitions.
        """
        if self.subscribed is not None and self.subscribed.broker_pattern:
            return self._read_topics
        return self._matched

    def subscribe(self, subscribed: Subscribed, now_ms: int) -> None:
        """Subscribe to these topics from the next poll() on. A member sends a heartbeat at once."""
        began = self.subscribed is None
        self.subscribed = subscribed
        # A pattern is matched when metadata of all topics has arrived. Metadata may know only some topics so far.
        self._seen_version = self._metadata.version
        if subscribed.pattern is None:
            self._matched = subscribed.topics
        self._watch(now_ms)
        if began:
            self._beats.returned(now_ms)
        self._heartbeat_now()
        self.holdings.announce()

    def enforce_rebalance(self, reason: str) -> None:
        """Only log the request, as Java does: brokers decide when a consumer group is rebalanced."""
        text = "enforce_rebalance() is without effect: the brokers decide when group '%s' is rebalanced"
        self._log.warning(text, self.settings.group_id)

    def entered(self, now_ms: int) -> None:
        """Note that the program has called poll(): the timer of max.poll.interval.ms stops."""
        self._beats.entered(now_ms)

    def returned(self, now_ms: int) -> None:
        """Note that poll() has returned to the program: the timer of max.poll.interval.ms starts."""
        self._beats.returned(now_ms)

    # On whose behalf offsets are committed

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The group metadata for commits, with the member epoch as generation; only the group id without a subscription and before the
        first epoch.

        After the membership was lost, it has the last epoch, as in ClassicMember.
        """
        epoch = self.epoch if self.is_member else self._last_epoch
        if self.subscribed is None or epoch <= JOIN_EPOCH:
            return ConsumerGroupMetadata(self.settings.group_id)
        return ConsumerGroupMetadata(self.settings.group_id, epoch, self._identity.member_id, self.settings.group_instance_id)

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would accept a commit now."""
        return self.subscribed is None or self.state in _MAY_COMMIT

    def for_commit(self) -> ConsumerGroupMetadata:
        """Return `group` if offsets may be committed. Raises CommitFailedError if the consumer is not a member."""
        if self.may_commit:
            return self.group
        raise commit_failed(self.settings, ErrorCode.UNKNOWN_MEMBER_ID)

    def for_look_up(self) -> ConsumerGroupMetadata:
        """Return `group`, with the member epoch: the coordinator then refuses a request with a stale epoch. Only the group id if the
        consumer is not a member.
        """
        return self.group if self.is_member else ConsumerGroupMetadata(self.settings.group_id)

    def caught_up(self, error: BrokerError, group: ConsumerGroupMetadata) -> Promise[None] | None:
        """After STALE_MEMBER_EPOCH, return a promise that settles when the newer epoch is known: with the next answer to a heartbeat, or
        at once if `group` is not the present one. None after other errors, and if the consumer is not in the group.
        """
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH or not self._is_in_group:
            return None
        if group == self.group:
            return self._heard
        now: Promise[None] = Promise()
        now.resolve(None)
        return now

    def refused(self, error: BrokerError, group: ConsumerGroupMetadata) -> KafkaError:
        """Return the error to raise for a refused commit. The answer to the next heartbeat shows its effect on the membership."""
        if self.subscribed is None:
            return error
        return refused_with_epoch(self.settings, error, group.generation_id)

    # Pending work

    @property
    def has_pending_work(self) -> bool:
        """Whether poll() has to do work for the group before it returns records."""
        if self.taking is not None or self.error is not None:
            return True
        return not self._is_in_group and (self.has_lost or self.wants_to_join)

    @property
    def has_lost(self) -> bool:
        """Whether the program still has partitions that the member has lost."""
        is_out = self.state in LOST or (self.state is ConsumerMemberState.LEAVING and self.subscribed is not None)
        return is_out and bool(self.holdings.held())

    @property
    def wants_to_join(self) -> bool:
        """Whether poll() has to begin to join. While no topic matches a pattern of the client, there is no reason to join."""
        if self.subscribed is None or self.state not in _MAY_JOIN:
            return False
        return self.subscribed.pattern is None or bool(self._matched)

    @property
    def is_member(self) -> bool:
        """Whether the member has an epoch that it does not know to be lost."""
        return self.epoch > JOIN_EPOCH

    def do_pending_work(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """See Membership."""
        return self._reconciliation.run(caller, deadline_ms)

    def give_up(self, caller: Caller) -> CallerFlow[None]:
        """Revoke all partitions before unsubscribe() or close()."""
        return self._reconciliation.give_up_for_good(caller)

    def prepare_leave(self) -> None:
        """Note that the program is about to revoke its partitions and to leave."""
        if self.state in FOLLOWS_TARGETS:
            self.taking = None
            self._move(ConsumerMemberEvent.PREPARE_LEAVE)

    def take_error(self) -> KafkaError | None:
        """Return the error to raise; None if there is none. It is returned once, or every time if the coordinator has refused the member
        permanently.
        """
        error, self.error = self.error, self.final_error
        return error

    @property
    def final_error(self) -> KafkaError | None:
        """See Membership."""
        return self.error if self.state is ConsumerMemberState.FATAL else None

    def begin_join(self, now_ms: int) -> None:
        """Send the first heartbeat. Before that, the program must have given up all partitions."""
        self._move(ConsumerMemberEvent.JOIN)
        # Without a pause, a coordinator that fences the member each time would get a request as soon as it has answered.
        self._beats.begin_at_once(now_ms, after_pause=self._fenced > 1)

    def begin_taking(self) -> Mapping[TopicPartition, UUID] | None:
        """Begin to reconcile; return the assignment that the program is to have afterwards. None if there is no such assignment."""
        self._has_begun = True
        return self.taking

    def finish_taking(self, now_ms: int) -> None:
        """Make the reconciled assignment the current one, and report it with a heartbeat at once."""
        assert self.taking is not None
        self.holdings.assign(self.taking, now_ms)
        self._have(self.taking)
        self.taking = None
        self.is_new = False
        self._move(ConsumerMemberEvent.RECONCILED)
        self.counters.rebalanced(self._began_ms, now_ms)
        self._heartbeat_now()

    def _have(self, current: Mapping[TopicPartition, UUID]) -> None:
        self.current = current
        # Stored because every heartbeat and every poll() compares it.
        self._owned = frozenset(Owned(topic_id, tp.partition) for tp, topic_id in current.items())
        self._read_topics = frozenset(tp.topic for tp in current)

    # Following the target

    def _move(self, event: ConsumerMemberEvent) -> None:
        """Change the state by an event, as TRANSITIONS says."""
        self.state = following(TRANSITIONS, self.state, event, f"a member of group '{self.settings.group_id}'")
        self._is_in_group = self.state in IN_GROUP

    def _follow_target(self, agreed: ConsumerMemberEvent) -> None:
        """Start to reconcile if the target assignment is the first one or differs from the current one, as far as its names are known.

        agreed: the event to apply if there is no target, or if it does not differ.
        """
        self.taking, self._has_begun = None, False
        if self._target is None:
            self._move(agreed)
            return
        asks_by_id = self.subscribed is not None and bool(self.subscribed.broker_pattern)
        wanted = self._names.name(self._target, self.current, asks_by_id=asks_by_id)
        has_all = not self.is_new and wanted.partitions == self.current
        if has_all and wanted.is_whole:
            self._move(agreed)
            return
        self._move(ConsumerMemberEvent.TARGET)
        if not has_all and (wanted.is_whole or wanted.partitions != self.current):
            self.taking, self._began_ms = wanted.partitions, self._now.ms
            self.holdings.announce()

    def _look_again(self) -> None:
        """Compare the target assignment with the current one again, because names of its topics may be known now.

        A reconciliation that is running, or that was not acknowledged yet, has to end first.
        """
        if self.taking is None and self.state in _TAKES_UP and self._target is not None:
            self._follow_target(ConsumerMemberEvent.AGREED)

    def _learned_names(self, error: BaseException | None) -> None:
        if self.subscribed is None or self.state not in FOLLOWS_TARGETS:
            return
        if error is not None:
            self._fail(error)
            return
        self._watch(self._now.ms)
        # If all names are still missing, the next heartbeat requests them again.
        if self._names.topics:
            self._look_again()

    def _watch(self, now_ms: int) -> None:
        assert self.subscribed is not None
        if self.subscribed.broker_pattern:
            self.holdings.watch(self.topics | self._names.topics, now_ms)
        else:
            self.holdings.watch(None if self.subscribed.pattern is not None else self._matched, now_ms)

    def _look_at_metadata(self) -> None:
        assert self.subscribed is not None
        if self.subscribed.pattern is not None:
            matched = self.subscribed.matching(self._metadata.snapshot, with_internal=not self.settings.exclude_internal_topics)
            if matched != self._matched:
                self._matched = matched
                self._heartbeat_now()
                self.holdings.announce()
        self._look_again()

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
        if not self._is_in_group:
            return NEVER_MS
        if now_ms >= self._beats.missed_ms:
            self._leave_unused()
            return NEVER_MS
        if now_ms >= self._beats.due_ms and self._beat is None:
            self._send_heartbeat(now_ms)
        return min(self._beats.due_ms, self._beats.missed_ms)

    def _current_fields(self) -> SentFields:
        assert self.subscribed is not None
        settings = self.settings
        return SentFields(
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            topics=self._matched,
            pattern=self.subscribed.broker_pattern,
            assignor=settings.group_remote_assignor,
            rack=settings.client_rack or None,
            owned=self._owned,
        )

    def _heartbeat_now(self) -> None:
        """Send a heartbeat at once, because a field has changed. If one is in flight, send it after the answer."""
        if self._beat is None and self._is_in_group:
            self._beats.begin_at_once(self._now.ms)

    def _send_heartbeat(self, now_ms: int) -> None:
        fields, epoch = self._current_fields(), self.epoch
        request = heartbeat(self._identity, epoch, fields, self._sent_fields)
        if self.state is ConsumerMemberState.ACKNOWLEDGING:
            self._follow_target(ConsumerMemberEvent.ACKNOWLEDGED)
        self._beats.sent()
        self._beat = self._spawn.start(self._requests.beat(request))
        self._beat.on_done(lambda done: self._end_heartbeat(done, fields, epoch, now_ms))

    def _end_heartbeat(self, done: Promise[ConsumerGroupHeartbeatResponse | None], fields: SentFields, epoch: int, sent_ms: int) -> None:
        self._beat = None
        if isinstance(done.error, ENDED):
            return
        if done.error is not None:
            self._fail(done.error)
            return
        answer = done.result()
        self.counters.heard_ms = self._now.ms if answer is not None else self.counters.heard_ms
        if answer is None or answer.error_code:
            self._sent_fields = None  # It is unknown which fields the coordinator has, or it has refused them.
            self._beats.answered(sent_ms, self._now.ms, ok=False)
            if answer is not None:
                self._heed(ErrorCode.of(answer.error_code), epoch, answer.error_message)
            return
        self._fenced = 0
        self._release.end()
        self._sent_fields = fields
        self._beats.every(answer.heartbeat_interval_ms)
        self._beats.answered(sent_ms, self._now.ms, ok=True)
        self._take(answer)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = self._last_epoch = answer.member_epoch
        if answer.assignment is not None:
            self._target = owned_of(answer.assignment.topic_partitions)
        # The coordinator may have moved partitions of an assignment that the program has not begun to take: follow the newer target.
        if (self.taking is None or not self._has_begun) and self.state in _TAKES_UP:
            self._follow_target(ConsumerMemberEvent.AGREED)
        if self._current_fields() != self._sent_fields:
            self._heartbeat_now()
        self._notify_waiting()

    def _notify_waiting(self) -> None:
        heard, self._heard = self._heard, Promise()
        heard.resolve(None)

    def _heed(self, code: ErrorCode, epoch: int, why: str | None) -> None:
        if code is ErrorCode.UNRELEASED_INSTANCE_ID and epoch == JOIN_EPOCH:
            if self._release.refused():
                return
            why = f"{why or code.name}{self._release.waited}"
        reaction = reaction_to(code, epoch)
        if reaction is HeartbeatReaction.REFIND:
            self._group.finder.forget(CoordinatorKind.GROUP, self.settings.group_id)
            if self._beats.failures == 1:
                self._beats.begin_at_once(self._now.ms)
        elif reaction is HeartbeatReaction.FENCE:
            self._log.info("group '%s' does not know this member any more: %s", self.settings.group_id, why or code.name)
            self._fenced += 1
            self._lose(ConsumerMemberEvent.FENCE)
        elif reaction is HeartbeatReaction.TELL:
            self.error = refusal(self._identity, code, why)
            self.holdings.announce()
        elif reaction is HeartbeatReaction.FAIL:
            self._fail(refusal(self._identity, code, why))

    # Not being a member

    def _fail(self, error: BaseException) -> None:
        """Handle a permanent refusal: every poll() raises it from now on."""
        assert isinstance(error, KafkaError), "flows fail with errors of levada's own"
        self.error = error
        self._lose(ConsumerMemberEvent.FAIL)

    def _lose(self, event: ConsumerMemberEvent) -> None:
        """Lose the membership. The program learns of its lost partitions in its next poll()."""
        self._move(event)
        self._forget()
        self.holdings.announce()

    def _forget(self) -> None:
        """Reset to the state before joining. Partitions that the program still has are reported as lost in its next poll()."""
        self.epoch = JOIN_EPOCH
        self.taking = self._target = self._sent_fields = None
        self._have(NOTHING)
        self.is_new = True
        self._release.end()
        self._beats.end()
        if self._beat is not None:
            beat, self._beat = self._beat, None
            self._spawn.cancel(beat)
        self._notify_waiting()

    def leave(self, reason: str, now_ms: int, *, tells: bool | None) -> Flow[None]:
        """Leave the group, and return the flow that sends the leaving heartbeat.

        tells: True leaves for good. With None or False, a static member leaves temporarily (epoch -2). Any other member leaves for good
        with None; with False it sends nothing, and its session expires. Nothing is sent either if the consumer is not in the group, or
        waits for its group.instance.id.
        """
        is_static = self.settings.group_instance_id is not None
        was_in_group, self._last_epoch = self._is_in_group, JOIN_EPOCH
        self.subscribed, self._matched, self.error = None, NO_TOPICS, None
        # A member that waits for its group.instance.id has not joined: the coordinator knows another member by this id.
        is_known = not self._release.is_awaited
        if was_in_group:
            self._begin_leaving()
            tells_so = is_known and (is_static or tells is not False)
            return self._send_leave(for_a_while=is_static and tells is not True, tells=tells_so)
        self._forget()
        if self.state is not ConsumerMemberState.LEAVING:
            self._move(ConsumerMemberEvent.UNSUBSCRIBE)
        return at_once(None)

    def _begin_leaving(self) -> None:
        self._forget()
        if self.state is not ConsumerMemberState.PREPARE_LEAVING:
            self._move(ConsumerMemberEvent.PREPARE_LEAVE)
        self._move(ConsumerMemberEvent.LEAVE)

    def _send_leave(self, *, for_a_while: bool, tells: bool) -> Flow[None]:
        try:
            if tells:
                yield from self._requests.leave(for_a_while=for_a_while)
        except ENDED:
            raise
        except KafkaError as error:
            text = "group '%s' was not told that its member %s leaves, and waits for it until its session ends: %s"
            self._log.info(text, self.settings.group_id, self._identity.member_id, error)
        finally:
            self._move(ConsumerMemberEvent.LEFT if self.subscribed is None else ConsumerMemberEvent.LEFT_UNUSED)
            self.holdings.announce()

    def _leave_unused(self) -> None:
        """Leave the group because poll() was not called for max.poll.interval.ms."""
        is_known = not self._release.is_awaited
        self._begin_leaving()
        self._log.warning(
            "left group '%s': no call for records for %g s (max.poll.interval.ms), so its partitions go to other members, who read again "
            "what is not committed; the next call joins again. Take less with each call (max.poll.records), or give it more time",
            self.settings.group_id,
            self.settings.max_poll_interval_ms / 1000,
        )
        is_static = self.settings.group_instance_id is not None
        self._spawn.start(self._send_leave(for_a_while=is_static, tells=is_known)).on_done(raise_bug)
        self.holdings.announce()

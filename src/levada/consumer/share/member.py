"""A member of a share group (KIP-932): its state, its heartbeats, and how it follows their answers (ShareMembershipManager in Java).

`states` has the state machine. This file has the rest: the poller that the engine runs, the contents of heartbeats, and what the
coordinator, the program and metadata may change at any time. Reactions to error codes, the timing of heartbeats and the topic names of a
target assignment are those of a consumer group (KIP-848).

The first heartbeat has all fields. A heartbeat after an error, or after a heartbeat that was not answered, has all fields as well, because
it is unknown which fields the coordinator has. Every other heartbeat has the member's identity, and the subscription only if it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from levada.acls import ResourceType
from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.base.flow import Call, Flow, at_once
from levada.base.permissions import refused
from levada.base.promise import Promise
from levada.base.state_table import following
from levada.client.driver_interface import ENDED, Deferred, raise_bug
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.fan_out import Spawn
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.counters import GroupCounters
from levada.consumer.group.consumer_heartbeat import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatReaction, Identity, Owned, owned_of, reaction_to
from levada.consumer.group.consumer_requests import ask_coordinator
from levada.consumer.group.heartbeats import Heartbeats
from levada.consumer.group.topic_names import TargetNames
from levada.consumer.share.states import IN_GROUP, MAY_JOIN, TRANSITIONS, ShareMemberEvent, ShareMemberState
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError, broker_error
from levada.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from levada.types import TopicPartition

Assignment = Mapping[TopicPartition, UUID]
NOTHING: Assignment = {}
NO_TOPICS: frozenset[str] = frozenset()


NEEDED = (
    "share groups need Kafka 4.1, or better 4.2, where they are no preview any more, and the feature share.version=1 (kafka-features.sh)"
)


class ShareMemberSettings(NamedTuple):
    """The settings of a member; fields have the names of the options."""

    group_id: str
    max_poll_interval_ms: int
    client_rack: str


class ShareGroupMember:
    """A member of a share group. It is a poller, and is used under the engine's lock.

    member_id: a unique id that stays the same for the life of the consumer. changed: called when the assignment has changed, or when the
    next poll() has to raise an error.
    """

    def __init__(
        self,
        settings: ShareMemberSettings,
        *,
        member_id: str,
        changed: Callable[[], None],
        finder: CoordinatorFinder,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        now: Now,
        deferred: Deferred,
    ) -> None:
        self.identity = Identity(settings.group_id, member_id, None)
        self.state = ShareMemberState.UNSUBSCRIBED
        self.topics = NO_TOPICS
        """The subscribed topics."""
        self.assignment = NOTHING
        """The assigned partitions, with their topic ids."""
        self.error: KafkaError | None = None
        """The error that the next poll() raises; every poll() if the member was refused permanently."""
        self.counters = GroupCounters()
        self._settings = settings
        self._changed = changed
        self._epoch = JOIN_EPOCH
        self._target: frozenset[Owned] | None = None
        self._sent_topics: frozenset[str] | None = None
        self._metadata = metadata
        self._spawn = spawn
        self._now = now
        self._log = deferred.log(__name__)
        self._group = CoordinatedGroup(settings.group_id, finder)
        self._beats = Heartbeats(interval_ms=NEVER_MS, backoff=backoff, max_poll_interval_ms=settings.max_poll_interval_ms)
        self._beat: Promise[ShareGroupHeartbeatResponse | None] | None = None
        self._names = TargetNames(metadata, spawn, lambda error: None)
        self._seen_version = -1
        self._began_ms = 0

    # Calls of the program

    @property
    def is_subscribed(self) -> bool:
        """Whether the program is subscribed to a topic."""
        return bool(self.topics)

    def subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        """Subscribe to these topics from the next poll() on. A member sends a heartbeat at once."""
        if not self.topics:
            self._beats.returned(now_ms)
        self.topics = topics
        self._metadata.set_topics(topics, now_ms)
        self._heartbeat_now()

    def entered(self, now_ms: int) -> None:
        """Note that the program has called poll(), and join the group if the consumer is not a member."""
        self._beats.entered(now_ms)
        if self.topics and self.state in MAY_JOIN:
            self._move(ShareMemberEvent.JOIN)
            self._began_ms = now_ms
            self._beats.begin_at_once(now_ms)

    def returned(self, now_ms: int) -> None:
        """Note that poll() has returned to the program: the timer of max.poll.interval.ms starts."""
        self._beats.returned(now_ms)

    def take_error(self) -> KafkaError | None:
        """Return the error to raise; None if there is none. It is returned once, or every time if the member was refused permanently."""
        error = self.error
        if self.state is not ShareMemberState.FATAL:
            self.error = None
        return error

    # The poller

    def poll(self, now_ms: int) -> int:
        """Handle changed metadata, leave after max.poll.interval.ms, or send a heartbeat, if it is time. Return the time, in ms, of the
        next poll.
        """
        if self.state not in IN_GROUP:
            return NEVER_MS
        if self._metadata.version > self._seen_version:
            self._seen_version = self._metadata.version
            self._follow_target()
        if now_ms >= self._beats.missed_ms:
            self._leave_unused()
            return NEVER_MS
        if now_ms >= self._beats.due_ms and self._beat is None:
            self._send_heartbeat()
        return min(self._beats.due_ms, self._beats.missed_ms)

    def _move(self, event: ShareMemberEvent) -> None:
        """Change the state by an event, as TRANSITIONS says."""
        self.state = following(TRANSITIONS, self.state, event, f"a member of share group '{self._settings.group_id}'")

    def _heartbeat_now(self) -> None:
        if self._beat is None and self.state in IN_GROUP:
            self._beats.begin_at_once(self._now.ms)

    def _send_heartbeat(self) -> None:
        sent_ms, epoch, topics = self._now.ms, self._epoch, self.topics
        request = share_heartbeat(self.identity, epoch, topics, self._sent_topics, self._settings.client_rack or None)
        self._beats.sent()
        self._beat = self._spawn.start(self._ask(request))
        self._beat.on_done(lambda done: self._end_heartbeat(done, topics, epoch, sent_ms))

    def _ask(self, request: ShareGroupHeartbeatRequest) -> Flow[ShareGroupHeartbeatResponse | None]:
        call = Call(request, self._group.coordinator)
        answer: ShareGroupHeartbeatResponse | None
        answer = yield from ask_coordinator(call, lambda why: share_refusal(self.identity, ErrorCode.UNSUPPORTED_VERSION, why))
        return answer

    def _end_heartbeat(self, done: Promise[ShareGroupHeartbeatResponse | None], topics: frozenset[str], epoch: int, sent_ms: int) -> None:
        self._beat = None
        if isinstance(done.error, ENDED):
            return
        if done.error is not None:
            self._fail(done.error)
            return
        answer = done.result()
        if answer is None or answer.error_code:
            # It is unknown which fields the coordinator has, or it has refused them.
            self._sent_topics = None
            self._beats.answered(sent_ms, self._now.ms, ok=False)
            if answer is not None:
                self._heed(ErrorCode.of(answer.error_code), epoch, answer.error_message)
            return
        self.counters.heard_ms = self._now.ms
        self._sent_topics = topics
        self._beats.every(answer.heartbeat_interval_ms)
        self._beats.answered(sent_ms, self._now.ms, ok=True)
        self._take(answer)

    def _take(self, answer: ShareGroupHeartbeatResponse) -> None:
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._target = owned_of(answer.assignment.topic_partitions)
            if self.state is ShareMemberState.STABLE:
                self._began_ms = self._now.ms
        if self._target is None:
            self._move(ShareMemberEvent.AGREED)
        self._follow_target()
        if self.topics != self._sent_topics:
            self._heartbeat_now()

    def _follow_target(self) -> None:
        """Set the assignment to the partitions of the target assignment whose topic names are known."""
        if self._target is None:
            return
        wanted = self._names.name(self._target, self.assignment, asks_by_id=False)
        is_new = wanted.partitions != self.assignment
        if not wanted.is_whole:
            self._move(ShareMemberEvent.TARGET)
        elif is_new or self.state is not ShareMemberState.STABLE:
            self.counters.rebalanced(self._began_ms, self._now.ms)
            self._move(ShareMemberEvent.TAKEN)
        else:
            self._move(ShareMemberEvent.AGREED)
        if is_new:
            self.assignment = wanted.partitions
            self._changed()

    def _heed(self, code: ErrorCode, epoch: int, why: str | None) -> None:
        reaction = reaction_to(code, epoch)
        if reaction is HeartbeatReaction.REFIND:
            self._group.finder.forget(CoordinatorKind.GROUP, self._settings.group_id)
            if self._beats.failures == 1:
                self._beats.begin_at_once(self._now.ms)
        elif reaction is HeartbeatReaction.FENCE:
            text = f"share group '{self._settings.group_id}' does not know this member any more, which joins again: {why or code.name}"
            self._log.info("%s", text)
            self._move(ShareMemberEvent.FENCE)
            self._forget()
            self._began_ms = self._now.ms
            self._beats.begin_at_once(self._now.ms)
        elif reaction is HeartbeatReaction.TELL:
            self.error = share_refusal(self.identity, code, why)
            self._changed()
        elif reaction is HeartbeatReaction.FAIL:
            self._fail(share_refusal(self.identity, code, why))

    # Not being a member

    def _fail(self, error: BaseException) -> None:
        """Handle a permanent refusal: every poll() raises it from now on."""
        assert isinstance(error, KafkaError), "flows fail with errors of levada's own"
        self.error = error
        self._move(ShareMemberEvent.FAIL)
        self._forget()
        self._changed()

    def _forget(self) -> None:
        """Reset the member to the state before it joined."""
        self._epoch = JOIN_EPOCH
        self._target = self._sent_topics = None
        self.assignment = NOTHING
        self._beats.end()
        if self._beat is not None:
            beat, self._beat = self._beat, None
            self._spawn.cancel(beat)
        self._changed()

    def leave(self) -> Flow[None]:
        """Unsubscribe and leave the group; return the flow that sends the leaving heartbeat. It sends nothing if the consumer is not in the
        group.
        """
        self.topics, self.error = NO_TOPICS, None
        if self.state in IN_GROUP:
            self._move(ShareMemberEvent.LEAVE)
            self._forget()
            return self._send_leave()
        self._forget()
        if self.state is not ShareMemberState.LEAVING:
            self._move(ShareMemberEvent.UNSUBSCRIBE)
        return at_once(None)

    def _send_leave(self) -> Flow[None]:
        try:
            answer = yield from self._ask(share_leaving(self.identity))
            if answer is None:
                raise ConnectError(f"the coordinator of share group '{self._settings.group_id}' did not answer")
            if answer.error_code:
                raise broker_error(answer.error_code, answer.error_message or "ShareGroupHeartbeat")
        except ENDED:
            raise
        except KafkaError as error:
            text = "share group '%s' was not told that its member %s leaves, and counts it until its session ends: %s"
            self._log.info(text, self._settings.group_id, self.identity.member_id, error)
        finally:
            self._move(ShareMemberEvent.LEFT_UNUSED if self.topics else ShareMemberEvent.LEFT)
            if self._beats.within:
                # The poll() began while the member was leaving and could not join.
                self.entered(self._now.ms)
            self._changed()

    def _leave_unused(self) -> None:
        """Leave the group because poll() was not called for max.poll.interval.ms."""
        self._move(ShareMemberEvent.LEAVE)
        self._forget()
        self._log.warning(
            "left share group '%s': no call for records for %g s (max.poll.interval.ms); the next call joins again. Records that this "
            "consumer has not acknowledged go to others when their locks end. Take less with each call (max.poll.records), or give it "
            "more time",
            self._settings.group_id,
            self._settings.max_poll_interval_ms / 1000,
        )
        self._spawn.start(self._send_leave()).on_done(raise_bug)


def share_heartbeat(
    who: Identity, epoch: int, topics: frozenset[str], sent: frozenset[str] | None, rack: str | None
) -> ShareGroupHeartbeatRequest:
    """Return a heartbeat with the fields that have changed. sent: the topics that were sent last; None sends all fields.

    epoch: the member epoch. rack: client.rack; None without one.
    """
    request = ShareGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=epoch)
    if topics != sent:
        request.subscribed_topic_names = sorted(topics)
    if sent is None:
        request.rack_id = rack
    return request


def share_leaving(who: Identity) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat that leaves the group."""
    return ShareGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=LEAVE_EPOCH)


def share_refusal(who: Identity, code: ErrorCode, why: str | None) -> KafkaError:
    """Return the error for a member that the coordinator refuses. why: the message of the answer."""
    text = f"share group '{who.group_id}': the coordinator refuses this member{f': {why}' if why else ''}"
    if code is ErrorCode.UNSUPPORTED_VERSION:
        text += f"; {NEEDED}"
    elif code is ErrorCode.GROUP_ID_NOT_FOUND:
        text += "; a group of another kind has this group.id"
    return refused(ShareGroupHeartbeatRequest.NAME, code, text, {ResourceType.GROUP: who.group_id})

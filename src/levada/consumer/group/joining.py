"""One rebalance of a classic member, from JoinGroup to its assignment: JoinGroup, the leader's part, SyncGroup.

It is one flow of the engine. It repeats these steps until there is an assignment, or an error for the program, or until the membership is
lost while the member still has partitions: the program has to be notified of that first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Flow, Sleep, Wait
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorKind
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.group.assignors import common_protocol
from levada.consumer.group.classic_states import MemberEvent
from levada.consumer.group.consumer_protocol import read_assignment, read_subscription
from levada.consumer.group.leading import Layouts, assign, is_cooperative, layouts, wanted_topics
from levada.consumer.group.requests import (
    ON_JOIN_ERROR,
    ON_SYNC_ERROR,
    PROTOCOL_TYPE,
    ClassicReaction,
    Generation,
    GroupSettings,
    Requests,
    refusal,
)
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, broker_error
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor
from levada.protocol.messages.join_group import JoinGroupResponse

PAUSES = frozenset({ClassicReaction.RETRY, ClassicReaction.REFIND})
_BEGINS_ANEW = frozenset({ClassicReaction.TAKE_ID, ClassicReaction.LOSE_GENERATION, ClassicReaction.LOSE_MEMBERSHIP})
MOST_AT_ONCE = 3
"""How often a member joins again without a pause. Then it pauses: a coordinator that always refuses would get too many requests."""


class Led(NamedTuple):
    """The topics of the group when this leader assigned them. The leader watches them for changes."""

    topics: frozenset[str]
    layouts: Layouts
    with_racks: bool


class Received(NamedTuple):
    """A received assignment, and the assignor that made it. led: the topics to watch; None if this member is not the leader."""

    assignment: MemberAssignment
    assignor: PartitionAssignor
    led: Led | None


class Joiner(Protocol):
    """The part of a ClassicMember that joining uses."""

    generation: Generation

    def move(self, event: MemberEvent) -> None:
        """Change the state by an event."""
        ...

    def offers(self) -> list[tuple[str, bytes]]:
        """Return the subscription of this member for each assignor, in order of preference (JoinGroup's protocols)."""
        ...

    def take_generation(self, generation: Generation) -> None:
        """Store the generation that the coordinator has given."""
        ...

    def lose(self, *, keeps_id: bool) -> None:
        """Lose the generation, and with it the partitions. keeps_id: whether the member id stays valid."""
        ...

    @property
    def holds_partitions(self) -> bool:
        """Whether the program has partitions that it has not revoked."""
        ...

    def watch_topics(self, topics: frozenset[str]) -> None:
        """Request metadata of these topics in addition to those of the subscription."""
        ...

    def asks(self, asks: bool) -> None:
        """Note whether a JoinGroup or SyncGroup is in flight. No heartbeat is sent then, because these requests wait for other members."""
        ...


class Joining:
    """Joins the group for one member, once per rebalance. Used under the engine's lock.

    run_beside: runs a function of the program soon, without the lock.
    """

    def __init__(
        self,
        member: Joiner,
        *,
        settings: GroupSettings,
        requests: Requests,
        group: CoordinatedGroup,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        run_beside: Callable[[Callable[[], Any]], Promise[Any]],
    ) -> None:
        self._member = member
        self._settings = settings
        self._requests = requests
        self._group = group
        self._assignors = {assignor.NAME: assignor for assignor in settings.assignors}
        self._common = common_protocol(settings.assignors)
        self._metadata = metadata
        self._backoff = backoff
        self._run_beside = run_beside

    def run(self, reason: str) -> Flow[Received | None]:
        """Join the group and return the assignment.

        Return None if the membership was lost and the program still has partitions to give up.
        """
        attempts = begun_anew = 0
        while True:
            outcome = yield from self._once(reason)
            if not isinstance(outcome, ClassicReaction):
                return outcome
            if outcome in (ClassicReaction.LOSE_GENERATION, ClassicReaction.LOSE_MEMBERSHIP) and self._member.holds_partitions:
                return None
            begun_anew += outcome in _BEGINS_ANEW
            if outcome in PAUSES or begun_anew > MOST_AT_ONCE:
                yield Sleep(self._backoff.delay_ms(attempts))
                attempts += 1

    def _once(self, reason: str) -> Flow[Received | ClassicReaction]:
        self._member.move(MemberEvent.JOIN)
        joined = yield from self._ask(self._requests.join(self._member.generation.member_id, self._member.offers(), reason), ON_JOIN_ERROR)
        if isinstance(joined, ClassicReaction):
            return joined
        assignor = self._chosen(joined)
        self._member.take_generation(Generation(joined.generation_id, joined.member_id))
        self._member.move(MemberEvent.JOINED)
        led: Led | None = None
        given: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            led, given = yield from self._lead(joined, assignor)
        synced = yield from self._ask(self._requests.sync(self._member.generation, joined.protocol_name or "", given), ON_SYNC_ERROR)
        if isinstance(synced, ClassicReaction):
            return synced
        self._check_same(synced.protocol_type, synced.protocol_name, joined.protocol_name)
        return Received(read_assignment(synced.assignment), assignor, led)

    def _chosen(self, joined: JoinGroupResponse) -> PartitionAssignor:
        """Return the assignor that the coordinator has chosen."""
        self._check_same(joined.protocol_type, joined.protocol_name, joined.protocol_name)
        assignor = self._assignors.get(joined.protocol_name or "")
        if assignor is None:
            offered = ", ".join(self._assignors)
            raise self._error(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the coordinator chose assignor {joined.protocol_name!r}; offered were {offered}"
            )
        return assignor

    def _check_same(self, protocol_type: str | None, name: str | None, expected: str | None) -> None:
        """Raise an error if the protocol type or assignor in an answer is not the expected one. Older brokers send neither."""
        if protocol_type not in (None, PROTOCOL_TYPE) or name not in (None, expected):
            raise self._error(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the coordinator answers for a group of type {protocol_type!r} with assignor {name!r}",
            )

    def _lead(self, joined: JoinGroupResponse, assignor: PartitionAssignor) -> Flow[tuple[Led, dict[str, bytes]]]:
        """Assign the partitions as leader; return the topics to watch, and the encoded assignment of each member.

        A static leader that has rejoined may be told to skip the assignment (KIP-814); it only watches the topics.
        """
        members = {each.member_id: read_subscription(each.metadata, each.group_instance_id) for each in joined.members}
        topics = wanted_topics(members)
        with_racks = any(member.rack for member in members.values())
        yield from self._learn(topics)
        found = layouts(self._metadata.snapshot, topics, with_racks=with_racks)
        led = Led(topics, found, with_racks)
        if joined.skip_assignment:
            return led, {}
        given: dict[str, bytes] = yield Wait(self._run_beside(lambda: self._share_out(assignor, found, members)))
        return led, given

    def _share_out(self, assignor: PartitionAssignor, topics: Layouts, members: Mapping[str, MemberSubscription]) -> dict[str, bytes]:
        return assign(assignor, topics, members, cooperative=is_cooperative(assignor, self._common))

    def _learn(self, topics: frozenset[str]) -> Flow[None]:
        """Request the metadata of all topics of the group, and wait for it if a topic is not known."""
        self._member.watch_topics(topics)
        if not topics <= self._metadata.snapshot.topics.keys():
            yield Wait(self._metadata.refreshed())

    def _ask(self, call: Call, policy: Mapping[ErrorCode, ClassicReaction]) -> Flow[Any]:
        """Send a request; return the answer. If it has an error, or is missing, begin the reaction and return that.

        policy: the reaction to each error code. Raises the error if the reaction is RAISE.
        """
        self._member.asks(True)
        try:
            answer = yield call
        except ENDED:
            raise
        except ConnectError:
            return self._react(ClassicReaction.REFIND)
        finally:
            self._member.asks(False)
        if not answer.error_code:
            return answer
        reaction = policy.get(ErrorCode.of(answer.error_code), ClassicReaction.RAISE)
        if reaction is ClassicReaction.RAISE:
            raise refusal(self._settings, answer.error_code, "this member")
        if reaction is ClassicReaction.TAKE_ID:
            self._member.take_generation(Generation(self._member.generation.number, answer.member_id))
        return self._react(reaction)

    def _react(self, reaction: ClassicReaction) -> ClassicReaction:
        if reaction is ClassicReaction.REFIND:
            self._group.finder.forget(CoordinatorKind.GROUP, self._group.group_id)
        elif reaction in (ClassicReaction.LOSE_GENERATION, ClassicReaction.LOSE_MEMBERSHIP):
            self._member.lose(keeps_id=reaction is ClassicReaction.LOSE_GENERATION)
        return reaction

    def _error(self, code: int, why: str) -> Exception:
        return broker_error(code, f"group '{self._group.group_id}': {why}")

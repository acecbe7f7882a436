"""The classic group protocol: how each request of a member changes its group, and when it is refused (KIP-345, KIP-394).

The caller has checked that this node coordinates the group. A request is refused with a BrokerError that has Kafka's error code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

from levada.base.promise import Promise
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import (
    NO_MEMBER_ID,
    ClassicGroup,
    ClassicMember,
    ClientOrigin,
    JoinRefusedError,
    Protocol,
    StoredGroup,
    protocols_of,
)
from levada.broker.coordinators.groups.classic_rebalance import Rebalances
from levada.broker.coordinators.groups.group_states import Event, State
from levada.broker.node.purgatory import Timers
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUIRES_MEMBER_ID = 4
"""The first version of JoinGroup in which a new member gets its id before it joins (KIP-394)."""

SKIPS_ASSIGNMENT = 9
"""The first version of JoinGroup in which a static leader that comes back can be told not to assign (KIP-814)."""

KEEPS_SESSION = frozenset({State.STABLE, State.PREPARING_REBALANCE})
"""The states in which a commit counts as a heartbeat."""


class Rejoin(Enum):
    """The result of a JoinGroup request from a client that is a member already.

    REBALANCE: a rebalance begins or goes on. REPEAT: the client gets the last response again. START_OVER: the request is refused, and the
    client has to join as a new member.
    """

    REBALANCE = auto()
    REPEAT = auto()
    START_OVER = auto()


def classify_rejoin(group: ClassicGroup, member: ClassicMember, protocols: Sequence[Protocol]) -> Rejoin:
    """Return how a JoinGroup request from a member of the group is to be handled. protocols: the assignors in the request."""
    if group.state is State.EMPTY:
        return Rejoin.START_OVER
    if group.state is State.PREPARING_REBALANCE or member.protocols != tuple(protocols):
        return Rejoin.REBALANCE
    if group.state is State.STABLE and group.leader == member.id:
        return Rejoin.REBALANCE
    return Rejoin.REPEAT


class ClassicGroups:
    """Handles the requests of the members of a node's classic groups.

    store: stores the present state of a group; it gets the group and the node's time. new_id: returns a unique suffix for a member id,
    which begins with the instance id or the client id.
    """

    def __init__(
        self, settings: BrokerSettings, timers: Timers, store: Callable[[ClassicGroup, int], None], new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._store = store
        self._new_id = new_id
        self._rebalances = Rebalances(settings, timers, store)

    # JoinGroup

    def check_session_timeout(self, request: JoinGroupRequest) -> None:
        """Raise INVALID_SESSION_TIMEOUT if the session timeout in the request is shorter or longer than the broker allows."""
        shortest, longest = self._settings.group_min_session_timeout_ms, self._settings.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise BrokerError(
                f"a session timeout of {request.session_timeout_ms} ms; the broker allows {shortest} to {longest}",
                code=ErrorCode.INVALID_SESSION_TIMEOUT,
            )

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, version: int, origin: ClientOrigin, now_ms: int
    ) -> Promise[JoinGroupResponse]:
        """Handle JoinGroup. The promise is resolved when the join phase of the rebalance is complete (classic_rebalance), or at once if no
        rebalance is needed.

        BrokerError, or JoinRefusedError with the member id for the response, is raised or becomes the error of the promise. version: the
        version of the request.
        """
        self._check_size(group, request.member_id)
        if not group.supports(request.protocol_type, (offered.name for offered in request.protocols)):
            raise BrokerError(
                f"group '{group.id}' of type {group.protocol_type!r} has no assignor in common with a member of type "
                f"{request.protocol_type!r} that offers {', '.join(offered.name for offered in request.protocols) or 'none'}",
                code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        if request.member_id != NO_MEMBER_ID:
            return self._join_again(group, request, origin, now_ms)
        new_id = f"{request.group_instance_id or origin.client_id}-{self._new_id()}"
        replaced = group.static_member(request.group_instance_id)
        if replaced is not None:
            return self._replace_static(group, replaced, new_id, request, version, now_ms)
        if request.group_instance_id is None and version >= REQUIRES_MEMBER_ID:
            self._rebalances.expect(group, new_id, request.session_timeout_ms, now_ms)
            raise JoinRefusedError(f"join group '{group.id}' again as {new_id!r}", ErrorCode.MEMBER_ID_REQUIRED, new_id)
        return self._add(group, new_id, request, origin, now_ms)

    def _check_size(self, group: ClassicGroup, member_id: str) -> None:
        limit = self._settings.group_max_size
        if group.state is State.EMPTY:
            return
        if group.state is State.PREPARING_REBALANCE:
            known = group.members.get(member_id)
            is_in = known is not None and known.joining is not None
            size = sum(member.joining is not None for member in group.members.values())
        else:
            is_in, size = member_id in group.members, len(group.members)
        if not is_in and size >= limit:
            self._rebalances.forget_pending(group, member_id)
            raise JoinRefusedError(f"group '{group.id}' has group.max.size={limit} members", ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)

    def _join_again(self, group: ClassicGroup, request: JoinGroupRequest, origin: ClientOrigin, now_ms: int) -> Promise[JoinGroupResponse]:
        if request.member_id in group.pending:
            return self._add(group, request.member_id, request, origin, now_ms)
        member = group.check_member(request.member_id, request.group_instance_id)
        match classify_rejoin(group, member, _protocols(request)):
            case Rejoin.REBALANCE:
                answer = _wait_for_join(member, request)
                self._rebalances.start_or_continue(group, f"member {member.id!r} joins again{_reason(request.reason)}", now_ms)
                return answer
            case Rejoin.REPEAT:
                return Promise.resolved(group.joined(member))
            case Rejoin.START_OVER:
                raise BrokerError(f"group '{group.id}' is empty", code=ErrorCode.UNKNOWN_MEMBER_ID)

    def _add(
        self, group: ClassicGroup, member_id: str, request: JoinGroupRequest, origin: ClientOrigin, now_ms: int
    ) -> Promise[JoinGroupResponse]:
        member = ClassicMember(member_id, request.group_instance_id, origin)
        member.is_new = True
        answer = _wait_for_join(member, request)
        if group.state is State.PREPARING_REBALANCE and group.before is State.EMPTY:
            group.member_added = True
        group.add(member, request.protocol_type)
        self._rebalances.restart_session(group, member, now_ms)
        self._rebalances.start_or_continue(group, f"member {member_id!r} joins{_reason(request.reason)}", now_ms)
        return answer

    def _replace_static(
        self, group: ClassicGroup, old: ClassicMember, new_id: str, request: JoinGroupRequest, version: int, now_ms: int
    ) -> Promise[JoinGroupResponse]:
        """Let the restarted process of a static member replace the old member. If the group is stable and its assignor stays the same, no
        rebalance is needed (KIP-345).

        Return the promise of the response to its JoinGroup.
        """
        led = group.leader
        member = self._rebalances.replace_static(group, old, new_id)
        answer = _wait_for_join(member, request)
        self._rebalances.restart_session(group, member, now_ms)
        if group.state is State.STABLE and group.choose_protocol() == group.protocol_name:
            self._store(group, now_ms)
            if version >= SKIPS_ASSIGNMENT:
                member.settle_join(group.joined(member, skip_assignment=group.leader == new_id))
            else:
                # The response names the former process as leader, so the new one computes no assignment: do not wait for one.
                member.settle_join(group.joined(member, leader=led))
        else:
            self._rebalances.start_or_continue(group, f"{member.instance_id!r} is member {new_id!r} now", now_ms)
        return answer

    # SyncGroup, Heartbeat, LeaveGroup

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> Promise[SyncGroupResponse]:
        """Handle SyncGroup. The promise is resolved when the leader has sent the assignment. BrokerError is raised or becomes the error of
        the promise.
        """
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        if not (_agrees(request.protocol_type, group.protocol_type) and _agrees(request.protocol_name, group.protocol_name)):
            raise BrokerError(
                f"group '{group.id}' has assignor {group.protocol_name!r} of type {group.protocol_type!r}",
                code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        if group.state is State.PREPARING_REBALANCE:
            raise BrokerError(f"group '{group.id}' is rebalancing", code=ErrorCode.REBALANCE_IN_PROGRESS)
        answer: Promise[SyncGroupResponse] = Promise()
        member.syncing = answer
        self._rebalances.synced(group, member)
        if group.state is State.STABLE:
            member.settle_sync(group.synced(member))
        elif group.leader == member.id:
            given = [(assigned.member_id, bytes(assigned.assignment)) for assigned in request.assignments]
            self._rebalances.take_assignment(group, given, now_ms)
        return answer

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Handle Heartbeat: restart the member's session, even if REBALANCE_IN_PROGRESS is raised because the member has to join again.

        instance_id: the group.instance.id; None for a dynamic member. Raises BrokerError for an unknown member or another generation, too.
        """
        member = group.check_member(member_id, instance_id)
        group.check_generation(generation)
        self._rebalances.restart_session(group, member, now_ms)
        if group.state is State.PREPARING_REBALANCE:
            raise BrokerError(f"group '{group.id}' is rebalancing", code=ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group: ClassicGroup, members: Sequence[MemberIdentity], now_ms: int) -> list[ErrorCode]:
        """Handle LeaveGroup; return an error code for each member. An administrator may remove a static member by its instance id without
        its member id.
        """
        codes = []
        for one in members:
            try:
                self._remove(group, one)
            except BrokerError as error:
                codes.append(error.code)
            else:
                codes.append(ErrorCode.NONE)
        gone = [one.member_id or one.group_instance_id for one, code in zip(members, codes, strict=True) if code is ErrorCode.NONE]
        if gone and group.state is not State.EMPTY:
            self._rebalances.start_or_continue(group, f"{', '.join(map(repr, gone))} left", now_ms)
        return codes

    def _remove(self, group: ClassicGroup, one: MemberIdentity) -> None:
        if one.member_id in group.pending:
            self._rebalances.forget_pending(group, one.member_id)
            return
        static = group.static_member(one.group_instance_id)
        if one.member_id == NO_MEMBER_ID and static is not None:
            self._rebalances.remove(group, static)
        else:
            self._rebalances.remove(group, group.check_member(one.member_id, one.group_instance_id))

    # Commits

    def check_commit(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int, *, in_transaction: bool
    ) -> None:
        """Raise BrokerError with Kafka's code if the member may not commit offsets. An allowed commit of a member restarts its session,
        like a heartbeat, but not within a transaction.

        A request without a generation may commit for an empty group and, if it names no member either, within a transaction.
        """
        names_member = member_id != NO_MEMBER_ID or instance_id is not None
        if generation < 0 and (group.state is State.EMPTY or (in_transaction and not names_member)):
            return
        if generation < 0 and not names_member:
            raise BrokerError(f"group '{group.id}' has members; commit as one of them", code=ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(member_id, instance_id)
        group.check_generation(generation)
        if in_transaction:
            return
        if group.state is State.COMPLETING_REBALANCE:
            raise BrokerError(f"group '{group.id}' is rebalancing", code=ErrorCode.REBALANCE_IN_PROGRESS)
        if group.state in KEEPS_SESSION:
            self._rebalances.restart_session(group, member, now_ms)

    # Loading, unloading, conversion

    def restore(self, group_id: str, stored: StoredGroup, now_ms: int) -> ClassicGroup:
        """Make a group from its stored form. The sessions of its members begin now."""
        group = ClassicGroup.restored(group_id, stored)
        self.resume(group, now_ms)
        return group

    def resume(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin the sessions of the members of a group."""
        self._rebalances.resume(group, now_ms)

    def adopt(self, group: ClassicGroup, now_ms: int) -> None:
        """Take over a consumer group that was converted to a classic group. A rebalance begins, in which a leader is chosen."""
        self._store(group, now_ms)
        self._rebalances.resume(group, now_ms)
        self._rebalances.start_or_continue(group, "no member of the consumer group protocol is left", now_ms)

    def release(self, group: ClassicGroup) -> None:
        """Release a group that is converted to a consumer group. Its waiting requests get REBALANCE_IN_PROGRESS."""
        self._rebalances.end(group, Event.CONVERT, _refusal(group, "is a consumer group now", ErrorCode.REBALANCE_IN_PROGRESS))

    def unload(self, group: ClassicGroup) -> None:
        """Release a group, because another node is its coordinator from now on. Its waiting requests get NOT_COORDINATOR."""
        self._rebalances.end(group, Event.UNLOAD, _refusal(group, "has another coordinator", ErrorCode.NOT_COORDINATOR))

    def delete(self, group: ClassicGroup) -> None:
        """Delete a group. Raises IllegalStateError unless it is empty."""
        self._rebalances.end(group, Event.DELETE, _refusal(group, "was deleted", ErrorCode.UNKNOWN_MEMBER_ID))


def _refusal(group: ClassicGroup, reason: str, code: ErrorCode) -> BrokerError:
    return BrokerError(f"group '{group.id}' {reason}", code=code)


def _protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    return protocols_of([(offered.name, offered.metadata) for offered in request.protocols])


def _wait_for_join(member: ClassicMember, request: JoinGroupRequest) -> Promise[JoinGroupResponse]:
    """Store the assignors and timeouts of a JoinGroup request in the member, and return the promise of its response. An earlier request
    that still waits is never answered.
    """
    answer: Promise[JoinGroupResponse] = Promise()
    member.joining = answer
    member.protocols = _protocols(request)
    member.session_timeout_ms = request.session_timeout_ms
    # JoinGroup version 0 has no rebalance timeout.
    member.rebalance_timeout_ms = request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
    return answer


def _agrees(said: str | None, known: str | None) -> bool:
    return said is None or known is None or said == known


def _reason(text: str | None) -> str:
    return f": {text}" if text else ""

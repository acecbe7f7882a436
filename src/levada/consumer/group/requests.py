"""The requests of a member of a classic group to its coordinator, and the reaction to each error code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from levada.acls import ResourceType
from levada.base.flow import Call, Flow
from levada.base.permissions import refused
from levada.client.requests.destination import Coordinator
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, UnsupportedVersionError
from levada.groups import PartitionAssignor
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
JOIN_GRACE_MS = 5_000
"""How much later than the rebalance timeout the answer to JoinGroup may arrive."""
LONGEST_REASON = 255
FIRST_VERSION_WITH_INSTANCE_ID = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3


class ClassicReaction(Enum):
    """The reaction of a member to an error code."""

    RETRY = "retry after a backoff"
    REFIND = "look up the coordinator and retry after a backoff"
    TAKE_ID = "join again at once, with the member id in the response"
    REJOIN = "join again at once: another rebalance has begun"
    LOSE_GENERATION = "join again at once: the group is in another generation"
    LOSE_MEMBERSHIP = "join again at once as a new member: the coordinator does not know this one"
    RAISE = "raise it to the program"


_C, _R = ErrorCode, ClassicReaction
_COORDINATOR = {_C.COORDINATOR_NOT_AVAILABLE: _R.REFIND, _C.NOT_COORDINATOR: _R.REFIND, _C.COORDINATOR_LOAD_IN_PROGRESS: _R.RETRY}

ON_JOIN_ERROR: Mapping[ErrorCode, ClassicReaction] = {
    **_COORDINATOR,
    _C.MEMBER_ID_REQUIRED: _R.TAKE_ID,
    _C.REBALANCE_IN_PROGRESS: _R.RETRY,
    _C.UNKNOWN_MEMBER_ID: _R.LOSE_MEMBERSHIP,
}
ON_SYNC_ERROR: Mapping[ErrorCode, ClassicReaction] = {
    **_COORDINATOR,
    _C.REBALANCE_IN_PROGRESS: _R.REJOIN,
    _C.ILLEGAL_GENERATION: _R.LOSE_GENERATION,
    _C.UNKNOWN_MEMBER_ID: _R.LOSE_MEMBERSHIP,
}
ON_HEARTBEAT_ERROR: Mapping[ErrorCode, ClassicReaction] = ON_SYNC_ERROR
"""A code that a table does not name is RAISE: such as a missing permission, an incompatible group, or a fenced group.instance.id."""


class Generation(NamedTuple):
    """The identity of a member in one generation of its group. number: -1 without a generation. member_id: "" before one was given."""

    number: int = -1
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a member; fields have the names of the options."""

    group_id: str
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    assignors: tuple[PartitionAssignor, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    request_timeout_ms: int
    exclude_internal_topics: bool
    client_rack: str


def refusal(settings: GroupSettings, code: int, what: str) -> BrokerError:
    """Return the error for a member that the coordinator refuses. what: the refused request or member, in words."""
    advice = _ADVICE.get(ErrorCode.of(code))
    text = f"group '{settings.group_id}': the coordinator refuses {what}"
    names = {ResourceType.GROUP: settings.group_id}
    return refused(JoinGroupRequest.NAME, code, text if advice is None else f"{text}; {advice(settings)}", names)


_ADVICE: Mapping[ErrorCode, Callable[[GroupSettings], str]] = {
    _C.INCONSISTENT_GROUP_PROTOCOL: lambda settings: (
        f"its members do not all offer one of these assignors: {', '.join(one.NAME for one in settings.assignors)} "
        "(partition.assignment.strategy), or they are no consumers"
    ),
    _C.INVALID_SESSION_TIMEOUT: lambda settings: (
        f"session.timeout.ms={settings.session_timeout_ms} is not between the broker's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    _C.GROUP_MAX_SIZE_REACHED: lambda settings: "it has as many members as the broker's group.max.size allows",
    _C.FENCED_INSTANCE_ID: lambda settings: (
        f"another consumer has joined with group.instance.id='{settings.group_instance_id}', and each needs one of its own; close this one"
    ),
}
"""The cause of an error code, and its remedy."""


class Requests:
    """Makes the requests of one group member."""

    def __init__(self, settings: GroupSettings, group: CoordinatedGroup) -> None:
        self._settings = settings
        self._coordinator: Coordinator = group.coordinator

    def join(self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str) -> Call:
        """Return a JoinGroup request. protocols: the subscription of this member for each assignor, in order of preference."""
        settings = self._settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
            reason=reason[:LONGEST_REASON],
        )
        return self._call(request, timeout_ms=self.longest_answer_ms, may_block=True)

    def sync(self, generation: Generation, protocol: str, assignments: Mapping[str, bytes]) -> Call:
        """Return a SyncGroup request. assignments: the encoded assignment of each member if this member is the leader; else empty."""
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=generation.number,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=[SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assignments.items()],
        )
        return self._call(request, timeout_ms=self.longest_answer_ms, may_block=True)

    def heartbeat(self, generation: Generation) -> Call:
        """Return a Heartbeat request."""
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=generation.number,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        # If the coordinator does not answer within the session timeout, it is looked up again: it may have moved to another broker.
        return self._call(request, timeout_ms=min(self._settings.request_timeout_ms, self._settings.session_timeout_ms))

    def leave(self, member_id: str, reason: str) -> Flow[LeaveGroupResponse]:
        """Send LeaveGroup, in the newest version that the coordinator supports."""
        identity = MemberIdentity(member_id=member_id, group_instance_id=self._settings.group_instance_id, reason=reason[:LONGEST_REASON])
        request = LeaveGroupRequest(group_id=self._settings.group_id, members=[identity])
        try:
            answer: LeaveGroupResponse = yield Call(request, self._coordinator, min_version=FIRST_LEAVE_VERSION_WITH_MEMBERS)
        except UnsupportedVersionError:
            request = LeaveGroupRequest(group_id=self._settings.group_id, member_id=member_id)
            answer = yield Call(request, self._coordinator, max_version=FIRST_LEAVE_VERSION_WITH_MEMBERS - 1)
        return answer

    @property
    def longest_answer_ms(self) -> int:
        """How long, in ms, a JoinGroup may wait for the other members: each of them may take its max.poll.interval.ms to join."""
        return max(self._settings.request_timeout_ms, self._settings.max_poll_interval_ms + JOIN_GRACE_MS)

    def _call(self, request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest, *, timeout_ms: int, may_block: bool = False) -> Call:
        oldest = FIRST_VERSION_WITH_INSTANCE_ID[type(request)] if self._settings.group_instance_id is not None else 0
        return Call(request, self._coordinator, timeout_ms=timeout_ms, min_version=oldest, may_block=may_block)

"""Members of the classic protocol in consumer groups (KIP-848): their requests are handled as heartbeats.

JoinGroup reconciles the member one step further, and is answered at once: no member has to assign. SyncGroup returns the member's
assignment. Heartbeat tells the member to join again whenever it can be reconciled further. A member that does not join when told to, or
that joins and does not send SyncGroup, is removed after its rebalance timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import (
    CONSUMER,
    NO_MEMBER_ID,
    ClientOrigin,
    JoinRefusedError,
    protocols_of,
)
from levada.broker.coordinators.groups.classic_groups import REQUIRES_MEMBER_ID
from levada.broker.coordinators.groups.consumer_deadlines import Deadlines
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup, Topics
from levada.broker.coordinators.groups.consumer_groups import check_size
from levada.broker.coordinators.groups.consumer_member import ClassicPart, ConsumerMember, MemberState
from levada.broker.coordinators.groups.group_conversion import assignment_bytes, owned_by
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ProtocolError
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from levada.protocol.prefixed import decode_prefixed


class MixedGroups:
    """Handles the requests of those members of consumer groups that use the classic protocol."""

    def __init__(self, settings: BrokerSettings, deadlines: Deadlines, topics: Topics, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._topics = topics
        self._new_id = new_id

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, version: int, origin: ClientOrigin, now_ms: int) -> JoinGroupResponse:
        """Handle JoinGroup. Raises BrokerError, or JoinRefusedError with the member id for the response."""
        names = {offered.name for offered in request.protocols}
        if request.protocol_type != CONSUMER or not names & group.common_protocols(names):
            raise BrokerError(f"group '{group.id}' has no assignor in common with the member", code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        new_id = request.member_id or self._new_id()
        check_size(group, new_id, self._settings)
        if request.member_id == NO_MEMBER_ID and request.group_instance_id is None and version >= REQUIRES_MEMBER_ID:
            raise JoinRefusedError(f"join group '{group.id}' again as {new_id!r}", ErrorCode.MEMBER_ID_REQUIRED, new_id)
        try:
            subscription = decode_prefixed(ConsumerProtocolSubscription, request.protocols[0].metadata)
        except ProtocolError as error:
            raise BrokerError(f"group '{group.id}': {error}", code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error
        before = self._joining(group, request, new_id)
        after = _updated(before, new_id, request, origin, subscription)
        if before.id != after.id:
            self._deadlines.cancel(group, before.id)
        member = group.advance(self._topics, before, after, owned_by(subscription, self._topics))
        self._deadlines.restart_session(group, member, now_ms)
        self._deadlines.joined(group, member, now_ms)
        return JoinGroupResponse(
            member_id=member.id,
            generation_id=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0].name,
        )

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
        """Handle SyncGroup: return the member's assignment. Raises REBALANCE_IN_PROGRESS if the member has to join again first."""
        member = _existing(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, member.classic.protocols[0].name):
            raise BrokerError(
                f"member {member.id!r} joined with {member.classic.protocols[0].name!r}", code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            )
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.asked_to_join(group, member, now_ms)
            raise BrokerError(f"group '{group.id}' has a new epoch", code=ErrorCode.REBALANCE_IN_PROGRESS)
        self._deadlines.synced(group, member)
        self._deadlines.restart_session(group, member, now_ms)
        assignment = assignment_bytes(member, self._topics)
        return SyncGroupResponse(protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment)

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Handle Heartbeat: restart the member's session. Raises REBALANCE_IN_PROGRESS if the member has to join again to get nearer to its
        target assignment.

        instance_id: the group.instance.id; None for a dynamic member.
        """
        member = _existing(group, member_id, instance_id)
        _check_generation(member, generation)
        self._deadlines.restart_session(group, member, now_ms)
        can_take = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS or can_take:
            self._deadlines.asked_to_join(group, member, now_ms)
            raise BrokerError(f"member {member_id!r} can take a new assignment", code=ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group: ConsumerGroup, leaver: MemberIdentity, now_ms: int) -> ErrorCode:
        """Handle LeaveGroup for a member of either protocol; return its error code.

        An administrator may remove a static member by its instance id without its member id.
        """
        static = None if leaver.group_instance_id is None else group.static_member(leaver.group_instance_id)
        member_id = static.id if static is not None and leaver.member_id == NO_MEMBER_ID else leaver.member_id
        try:
            self._deadlines.remove(group, _named(group, member_id, leaver.group_instance_id).id, now_ms)
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE

    def _joining(self, group: ConsumerGroup, request: JoinGroupRequest, new_id: str) -> ConsumerMember:
        """Return the member as which a client joins, before the changes in the request are applied. new_id: the member id of a
        new member.
        """
        if request.group_instance_id is None:
            return group.members.get(new_id) or ConsumerMember(id=new_id)
        static = group.static_member(request.group_instance_id)
        if request.member_id != NO_MEMBER_ID:
            return group.existing_static(request.member_id, request.group_instance_id)
        return static or ConsumerMember(id=new_id)


def _updated(
    before: ConsumerMember, new_id: str, request: JoinGroupRequest, origin: ClientOrigin, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return replace(
        before,
        id=new_id,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        origin=origin,
        rebalance_timeout_ms=request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        classic=ClassicPart(request.session_timeout_ms, protocols_of([(offered.name, offered.metadata) for offered in request.protocols])),
    )


def _named(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    return group.existing(member_id) if instance_id is None else group.existing_static(member_id, instance_id)


def _existing(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    member = _named(group, member_id, instance_id)
    if member.classic is None:
        raise BrokerError(f"member {member_id!r} does not use the classic protocol", code=ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise BrokerError(f"member {member.id!r} is at epoch {member.epoch}, not {generation}", code=ErrorCode.ILLEGAL_GENERATION)

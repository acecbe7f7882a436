"""The membership of share groups (KIP-932): how a heartbeat changes a group, and when it is refused.

The caller has checked the coordinator and the fields of the request. A request is refused with a BrokerError that has Kafka's error code
and Kafka's message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from levada.broker.config.group_config import GroupConfig
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import ClientOrigin
from levada.broker.coordinators.groups.consumer_group import Topics
from levada.broker.coordinators.groups.consumer_member import JOINING
from levada.broker.coordinators.share.share_group import ShareGroup, ShareMember
from levada.broker.node.purgatory import Timers
from levada.broker.share.share_states import ShareKey, ShareStates
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareHeartbeatResult(NamedTuple):
    """The member after a heartbeat. tells_assignment: whether the response has to contain the member's assignment."""

    member: ShareMember
    tells_assignment: bool


class ShareGroups:
    """Handles the requests of the members of a node's share groups.

    config_of: returns the settings of a group by its id. states: the states of share partitions. wall_ms: converts the node's time to
    milliseconds since the epoch.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        timers: Timers,
        topics: Topics,
        config_of: Callable[[str], GroupConfig],
        states: ShareStates,
        wall_ms: Callable[[int], int],
    ) -> None:
        self._settings = settings
        self._timers = timers
        self._topics = topics
        self._config_of = config_of
        self._states = states
        self._wall_ms = wall_ms

    def heartbeat(self, group: ShareGroup, request: ShareGroupHeartbeatRequest, origin: ClientOrigin, now_ms: int) -> ShareHeartbeatResult:
        """Handle a heartbeat: add or update the member, give it its target assignment, and create the states of share partitions that the
        group has begun to read.
        """
        before = self._member(group, request)
        after = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topics=before.topics if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
            origin=origin,
        )
        member = group.advance(self._topics, before, after)
        if member.epoch != before.epoch:
            self._keep_partitions(group, now_ms)
        self._restart_session(group, member.id, now_ms)
        is_full = request.member_epoch == JOINING or request.subscribed_topic_names is not None
        return ShareHeartbeatResult(member, is_full or member.assigned != before.assigned)

    def leave(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> None:
        """Handle the heartbeat of a member that leaves the group."""
        self._remove(group, group.existing(request.member_id).id)

    def load(self, group: ShareGroup, now_ms: int) -> None:
        """Begin the sessions of all members, because their group was loaded."""
        for member_id in group.members:
            self._restart_session(group, member_id, now_ms)

    def unload(self, group: ShareGroup) -> None:
        """End the sessions of all members, because another node is the group's coordinator from now on."""
        for member_id in group.members:
            self._timers.cancel(_session(group, member_id))

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        """Return the member that sends a heartbeat, before the changes in the heartbeat are applied."""
        if request.member_epoch == JOINING:
            limit = self._settings.group_share_max_size
            if request.member_id not in group.members and len(group.members) >= limit:
                raise BrokerError(
                    f"The share group has reached its maximum capacity of {limit} members.", code=ErrorCode.GROUP_MAX_SIZE_REACHED
                )
            return group.members.get(request.member_id) or ShareMember(id=request.member_id)
        member = group.existing(request.member_id)
        if request.member_epoch not in (member.epoch, member.previous_epoch):
            greater = "greater" if request.member_epoch > member.epoch else "smaller"
            raise BrokerError(
                f"The share group member has a {greater} member epoch ({request.member_epoch}) than the one known by the group coordinator "
                f"({member.epoch}). The member must abandon all its partitions and rejoin.",
                code=ErrorCode.FENCED_MEMBER_EPOCH,
            )
        return member

    def _keep_partitions(self, group: ShareGroup, now_ms: int) -> None:
        for size in group.sizes.values():
            for partition in range(size.partitions):
                self._states.begin(ShareKey(group.id, size.id, partition), self._wall_ms(now_ms))

    def _restart_session(self, group: ShareGroup, member_id: str, now_ms: int) -> None:
        until_ms = now_ms + self._config_of(group.id).share_session_timeout_ms
        self._timers.schedule(_session(group, member_id), until_ms, lambda late_ms: self._remove(group, member_id))

    def _remove(self, group: ShareGroup, member_id: str) -> None:
        self._timers.cancel(_session(group, member_id))
        group.remove(member_id)


def _session(group: ShareGroup, member_id: str) -> tuple[str, str, str]:
    return "share session", group.id, member_id

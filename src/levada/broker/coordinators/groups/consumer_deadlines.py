"""The deadlines of members of consumer groups. A member that misses a deadline is removed.

A session expires when nothing was received from a member. A member that has to revoke partitions has its rebalance timeout to do so. The
same timeout limits how long a member of the classic protocol may take to join again, and then to send SyncGroup.
"""

from __future__ import annotations

from collections.abc import Callable

from levada.broker.config.group_config import GroupConfig
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.coordinators.groups.consumer_member import ConsumerMember, MemberState
from levada.broker.node.purgatory import Timers

SESSION, REVOCATION, JOIN, SYNC = "session", "revocation", "join", "sync"


class Deadlines:
    """The deadlines of the members of a node's consumer groups. A member that misses a deadline is removed.

    config_of: returns the settings of a group by its id. removed: called with the group and the time after a member was removed.
    """

    def __init__(self, config_of: Callable[[str], GroupConfig], timers: Timers, removed: Callable[[ConsumerGroup, int], None]) -> None:
        self._config_of = config_of
        self._timers = timers
        self._removed = removed

    def restart_session(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Restart the session timeout of a member that has sent a request."""
        own_ms = None if member.classic is None else member.classic.session_timeout_ms
        timeout_ms = self._config_of(group.id).consumer_session_timeout_ms if own_ms is None else own_ms
        self._expect(SESSION, group, member, now_ms + timeout_ms)

    def limit_revocation(self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now_ms: int) -> None:
        """Start the deadline for revoking partitions if a member has been told to revoke others than before. End it if the member has none
        to revoke, or uses the classic protocol.

        before, after: the member before and after the change.
        """
        if after.state is not MemberState.UNREVOKED_PARTITIONS or after.classic is not None:
            self._timers.cancel(_key(REVOCATION, group, after.id))
        elif (before.state, before.epoch, before.revoking) != (after.state, after.epoch, after.revoking):
            self._expect(REVOCATION, group, after, now_ms + after.rebalance_timeout_ms)

    def joined(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """End the deadline for JoinGroup and start that for SyncGroup, after a member of the classic protocol has joined."""
        self._timers.cancel(_key(JOIN, group, member.id))
        self._expect(SYNC, group, member, now_ms + member.rebalance_timeout_ms)

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """End the deadline for SyncGroup, after a member of the classic protocol has sent it."""
        self._timers.cancel(_key(SYNC, group, member.id))

    def asked_to_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Start the deadline for JoinGroup, after a member of the classic protocol was told to join again. A deadline that runs already is
        not changed.
        """
        if not self._timers.is_scheduled(_key(JOIN, group, member.id)):
            self._expect(JOIN, group, member, now_ms + member.rebalance_timeout_ms)

    def remove(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """Remove a member from its group, and end all its deadlines."""
        self.cancel(group, member_id)
        group.remove(member_id)
        self._removed(group, now_ms)

    def cancel(self, group: ConsumerGroup, member_id: str) -> None:
        """End all deadlines of a member."""
        for kind in (SESSION, REVOCATION, JOIN, SYNC):
            self._timers.cancel(_key(kind, group, member_id))

    def load(self, group: ConsumerGroup, now_ms: int) -> None:
        """Begin the sessions of all members, and their deadlines for revoking partitions, because their group was loaded or converted."""
        for member in group.members.values():
            self.restart_session(group, member, now_ms)
            self.limit_revocation(group, ConsumerMember(id=member.id), member, now_ms)

    def unload(self, group: ConsumerGroup) -> None:
        """End the deadlines of all members, because the group has another coordinator or becomes a classic group."""
        for member_id in group.members:
            self.cancel(group, member_id)

    def _expect(self, kind: str, group: ConsumerGroup, member: ConsumerMember, until_ms: int) -> None:
        self._timers.schedule(_key(kind, group, member.id), until_ms, lambda late_ms: self.remove(group, member.id, late_ms))


def _key(kind: str, group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return kind, group.id, member_id

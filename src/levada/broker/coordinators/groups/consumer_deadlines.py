"""The deadlines of members of consumer groups. A member that misses one is removed.

A session ends when nothing was heard of a member. A member that is told to give up partitions has its rebalance timeout to do so. A member
of the classic protocol has as long to join when it is asked to, and to ask for its assignment when it has joined.
"""

from __future__ import annotations

from collections.abc import Callable

from levada.broker.config.group_config import GroupConfig
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.coordinators.groups.consumer_member import ConsumerMember, MemberState
from levada.broker.node.purgatory import Timers

SESSION, REVOCATION, JOIN, SYNC = "session", "revocation", "join", "sync"


class Deadlines:
    """The deadlines of a node's consumer groups. config_of: returns a group's settings.

    removed: is told of a group that has lost a member, and the time.
    """

    def __init__(self, config_of: Callable[[str], GroupConfig], timers: Timers, removed: Callable[[ConsumerGroup, int], None]) -> None:
        self._config_of = config_of
        self._timers = timers
        self._removed = removed

    def restart_session(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Something was heard of a member."""
        own_ms = None if member.classic is None else member.classic.session_timeout_ms
        timeout_ms = self._config_of(group.id).consumer_session_timeout_ms if own_ms is None else own_ms
        self._expect(SESSION, group, member, now_ms + timeout_ms)

    def limit_revocation(self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now_ms: int) -> None:
        """A member may have been told to give up partitions, or have done so."""
        if after.state is not MemberState.UNREVOKED_PARTITIONS or after.classic is not None:
            self._timers.cancel(_key(REVOCATION, group, after.id))
        elif (before.state, before.epoch, before.revoking) != (after.state, after.epoch, after.revoking):
            self._expect(REVOCATION, group, after, now_ms + after.rebalance_timeout_ms)

    def joined(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol has joined, and has to ask for its assignment."""
        self._timers.cancel(_key(JOIN, group, member.id))
        self._expect(SYNC, group, member, now_ms + member.rebalance_timeout_ms)

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A member of the classic protocol has asked for its assignment."""
        self._timers.cancel(_key(SYNC, group, member.id))

    def asked_to_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol was asked to join again, perhaps not for the first time."""
        if not self._timers.is_scheduled(_key(JOIN, group, member.id)):
            self._expect(JOIN, group, member, now_ms + member.rebalance_timeout_ms)

    def remove(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """Remove a member from its group, whatever it is expected to do."""
        self.cancel(group, member_id)
        group.remove(member_id)
        self._removed(group, now_ms)

    def cancel(self, group: ConsumerGroup, member_id: str) -> None:
        """Expect nothing of a member any more."""
        for kind in (SESSION, REVOCATION, JOIN, SYNC):
            self._timers.cancel(_key(kind, group, member_id))

    def load(self, group: ConsumerGroup, now_ms: int) -> None:
        """The node coordinates the group from now on: its members' sessions begin."""
        for member in group.members.values():
            self.restart_session(group, member, now_ms)
            self.limit_revocation(group, ConsumerMember(id=member.id), member, now_ms)

    def unload(self, group: ConsumerGroup) -> None:
        """Another node coordinates the group from now on."""
        for member_id in group.members:
            self.cancel(group, member_id)

    def _expect(self, kind: str, group: ConsumerGroup, member: ConsumerMember, until_ms: int) -> None:
        self._timers.schedule(_key(kind, group, member.id), until_ms, lambda late_ms: self.remove(group, member.id, late_ms))


def _key(kind: str, group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return kind, group.id, member_id

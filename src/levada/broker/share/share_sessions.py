"""Share sessions: the partitions that a member of a share group reads at this node (KIP-932).

A member opens a session with epoch 0 and names all its partitions; after that, only changes. Each request, ShareFetch or ShareAcknowledge,
has the next epoch, and -1 closes the session. A session belongs to a member and to a connection: when it is closed or its connection ends,
the records that the member has acquired are released. The number of sessions is limited, and none is evicted.
"""

from __future__ import annotations

from collections.abc import Iterable

from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.node.fetch_sessions import next_epoch
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

INITIAL_EPOCH, FINAL_EPOCH = 0, -1


class ShareSession:
    """A share session. epoch: the epoch that its next request must have. failed: the partitions whose last answer was an error; the next
    answer for them is sent in any case.
    """

    def __init__(self, group: str, member: str, connection: int) -> None:
        self.group = group
        self.member = member
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.failed: set[TopicIdPartition] = set()
        self._parts: dict[TopicIdPartition, None] = {}

    @property
    def parts(self) -> list[TopicIdPartition]:
        """The partitions of the session, in the order in which they are read."""
        return list(self._parts)

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add the partitions that a request names, and remove the forgotten ones."""
        for part in added:
            self._parts.setdefault(part)
        for part in forgotten:
            self._parts.pop(part, None)

    def served(self, part: TopicIdPartition) -> None:
        """Move a partition behind all others, because records from it were sent."""
        if part in self._parts:
            self._parts[part] = self._parts.pop(part)

    def follow(self) -> None:
        """Count a request: its epoch is used up, and the next request must have the next epoch."""
        self.epoch = next_epoch(self.epoch)


class ShareSessions:
    """The share sessions of one node. slots: the maximum number of sessions."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: ShareSession) -> bool:
        return self._sessions.get((session.group, session.member)) is session

    def open(self, group: str, member: str, connection: int) -> ShareSession:
        """Open a session, in place of a session that the member may have. connection: the id of its connection. Raises
        SHARE_SESSION_LIMIT_REACHED if the other members take all slots.
        """
        self._sessions.pop((group, member), None)
        if len(self._sessions) >= self._slots:
            raise BrokerError(f"there are {self._slots} share sessions already", code=ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[group, member] = ShareSession(group, member, connection)
        return session

    def find(self, group: str, member: str, epoch: int) -> ShareSession:
        """Return the session that a request continues or closes.

        Raises SHARE_SESSION_NOT_FOUND, or INVALID_SHARE_SESSION_EPOCH if the epoch in the request is neither the next one nor -1.
        """
        session = self._sessions.get((group, member))
        if session is None:
            raise BrokerError(f"member {member!r} of group '{group}' has no share session here", code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise BrokerError(
                f"the share session of member {member!r} of group '{group}' is at epoch {session.epoch}, not {epoch}",
                code=ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            )
        return session

    def close(self, session: ShareSession) -> None:
        """Remove a session, unless its member has opened another one instead."""
        if session in self:
            del self._sessions[session.group, session.member]

    def of_connection(self, connection: int) -> list[ShareSession]:
        """Return the sessions of a connection, which end when the connection is closed."""
        return [session for session in self._sessions.values() if session.connection == connection]

    def has_any(self, group: str) -> bool:
        """Return whether a member of a group has a session at this node."""
        return any(name == group for name, _ in self._sessions)

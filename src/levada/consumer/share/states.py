"""The states of a member of a share group (KIP-932). The table below defines every transition; no other code changes the state.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> STABLE -> RECONCILING -> ... -> LEAVING -> UNSUBSCRIBED

There is one request, the heartbeat. Its answer may carry a target assignment: the partitions to fetch from. Several members may have the
same partition. So no member waits until another one has revoked a partition, and heartbeats do not report the current assignment. The
partitions of a target are assigned as soon as the names of their topics are known; a member is RECONCILING until all are known. The program
takes no part in that.

Three sides move a member:

- The responses of the coordinator: there is a target with unknown names (TARGET), or nothing changes (AGREED). The member is unknown
  (FENCE) and joins again at once, or it is refused permanently (FAIL).
- Metadata: it knows all names of a new target, at once or later (TAKEN), or still not all (TARGET).
- The program: poll() begins to join (JOIN). unsubscribe() and close() leave (LEAVE, LEFT), or only UNSUBSCRIBE if there is no membership to
  leave. If poll() is not called for max.poll.interval.ms, the member leaves (LEAVE, LEFT_UNUSED), and is STALE until the next poll(). It is
  STALE as well if the program subscribes again while the member is leaving.

What can never happen: a member that is UNSUBSCRIBED, STALE or FATAL sends heartbeats, or has partitions; close() leaves before the
acknowledgements were sent, unless the time for that is over. Records that the program has do not depend on the state: they are acknowledged
to the leaders of their partitions, whatever the coordinator knows of the member.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ShareMemberState(Enum):
    """The state of a member of a share group."""

    UNSUBSCRIBED = "not a member"
    JOINING = "waiting for the answer to its first heartbeat"
    RECONCILING = "waiting for the names of topics it has partitions of"
    STABLE = "a member that fetches from its partitions"
    LEAVING = "telling the coordinator that it leaves"
    STALE = "has left, and joins again with the next poll()"
    FATAL = "refused for good"


class ShareMemberEvent(Enum):
    """An event that changes the state of a member."""

    JOIN = "poll() begins to join"
    TARGET = "there is a target of which not all names are known"
    TAKEN = "the names are known, and the partitions are taken"
    AGREED = "an answer arrived, and the member has its target"
    FENCE = "the coordinator does not know this member, or its epoch"
    FAIL = "the coordinator refuses this member permanently"
    LEAVE = "the heartbeat that leaves is sent"
    LEFT = "it was answered, or has failed"
    LEFT_UNUSED = "it was answered, or has failed, and the program is still subscribed"
    UNSUBSCRIBE = "the program unsubscribes, without a membership to leave"


_S, _E = ShareMemberState, ShareMemberEvent

_IN_GROUP: Mapping[ShareMemberEvent, ShareMemberState] = {
    _E.TARGET: _S.RECONCILING,
    _E.TAKEN: _S.STABLE,
    _E.AGREED: _S.STABLE,
    _E.FENCE: _S.JOINING,
    _E.FAIL: _S.FATAL,
    _E.LEAVE: _S.LEAVING,
}

TRANSITIONS: Mapping[ShareMemberState, Mapping[ShareMemberEvent, ShareMemberState]] = {
    _S.UNSUBSCRIBED: {_E.JOIN: _S.JOINING, _E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
    _S.JOINING: _IN_GROUP,
    _S.RECONCILING: _IN_GROUP,
    _S.STABLE: _IN_GROUP,
    _S.LEAVING: {_E.LEFT: _S.UNSUBSCRIBED, _E.LEFT_UNUSED: _S.STALE},
    _S.STALE: {_E.JOIN: _S.JOINING, _E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
    _S.FATAL: {_E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
}

IN_GROUP = frozenset({_S.JOINING, _S.RECONCILING, _S.STABLE})
"""The states in which heartbeats are sent."""
MAY_JOIN = frozenset({_S.UNSUBSCRIBED, _S.STALE})
"""The states in which poll() begins to join."""

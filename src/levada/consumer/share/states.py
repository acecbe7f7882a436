"""Where a member of a share group (KIP-932) stands. The table below is the behaviour; nothing else changes a state.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> STABLE -> RECONCILING -> ... -> LEAVING -> UNSUBSCRIBED

There is one request, the heartbeat. Its answer may carry a target: the partitions that the member shall fetch from. Several members may
have the same partition, so nobody waits until a member has given one up, and the coordinator is not told what a member has: a target is
taken as soon as the names of its topics are known, which is what a RECONCILING member waits for. The program takes no part in that.

Three sides move a member. The coordinator does, by its answers: a TARGET, or that there is nothing to do (AGREED); that the member is none
any more (FENCE), whereupon it joins again at once; or that it may never be one (FAIL). Metadata does, when it knows the names (TAKEN). And
the program does: its first call for records begins to join (JOIN), and a call that does not come for max.poll.interval.ms makes the member
leave until the next one: it is STALE then.

What can never happen: a heartbeat of a member that is UNSUBSCRIBED, STALE or FATAL; that such a member has partitions; that a member
leaves before its acknowledgements were sent, unless the time for that is over. Records in the program's hands do not depend on the state:
they are acknowledged to the leaders of their partitions, whatever the coordinator thinks of the member.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ShareMemberState(Enum):
    """See the module's theory."""

    UNSUBSCRIBED = "not a member"
    JOINING = "waiting for the answer to its first heartbeat"
    RECONCILING = "waiting for the names of topics it has partitions of"
    STABLE = "a member that fetches from its partitions"
    LEAVING = "telling the coordinator that it leaves"
    STALE = "has left, as its program did not ask for records"
    FATAL = "refused for good"


class ShareMemberEvent(Enum):
    """What moves a member."""

    JOIN = "a call for records begins to join"
    TARGET = "there is a target of which not all names are known"
    TAKEN = "the names are known, and the partitions are taken"
    AGREED = "an answer came, and the member has what it shall have"
    FENCE = "the coordinator does not know this member, or its epoch"
    FAIL = "the coordinator refuses this member, and will do so again"
    LEAVE = "the heartbeat that leaves is begun"
    LEFT = "it was answered, or will not be"
    LEFT_UNUSED = "it was answered, or will not be, and the program is still subscribed"
    UNSUBSCRIBE = "the program unsubscribes, and nobody has to be told"


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
"""Where heartbeats are sent."""
MAY_JOIN = frozenset({_S.UNSUBSCRIBED, _S.STALE})
"""Where a call for records begins to join."""

"""Where a member of a consumer group (KIP-848) stands. The table below is the behaviour; nothing else changes a state.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> ACKNOWLEDGING -> STABLE -> RECONCILING -> ... -> PREPARE_LEAVING -> LEAVING -> UNSUBSCRIBED

There is one request, the heartbeat. Its answer may carry a target: the partitions that the coordinator wants the member to have. Where the
target is not what the member has, the member is RECONCILING: its program gives up what is not in the target, and takes what is new. Then
the member is ACKNOWLEDGING, until a heartbeat with what it has is sent, which is at once. STABLE is a member that has its target. The
member's epoch, 0 as long as it joins, rises with every step that the coordinator has seen it take.

Three sides move a member. The coordinator does, by its answers: a TARGET, or that there is nothing to do (AGREED); that the member is none
any more (FENCE), or that it may never be one (FAIL). The program does, since only a call for records begins to join (JOIN) or finishes
what is to be done (RECONCILED), and a call that does not come for max.poll.interval.ms makes the member leave until the next one: it is
STALE then. And the heartbeats do (ACKNOWLEDGED, when one was sent). A member that is FENCED, STALE or FATAL has lost its partitions, of
which its program is told within its next call for records. That call then joins again, but for FATAL, which unsubscribe() alone ends.

What can never happen: a heartbeat of a member that is UNSUBSCRIBED, FENCED, STALE or FATAL; that a member joins, with epoch 0, while it
has partitions; that a partition is acknowledged as given up before its program has given it up; that a newer target changes what the
program has begun, as it is taken up afterwards; that an older one is begun; that offsets are committed by a member without an epoch; that
partitions are given up, taken or told of outside a call of the program's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ConsumerMemberState(Enum):
    """See the module's theory."""

    UNSUBSCRIBED = "not a member"
    JOINING = "waiting for the answer to its first heartbeat"
    RECONCILING = "giving up and taking partitions"
    ACKNOWLEDGING = "about to tell the coordinator what it has"
    STABLE = "a member that has its partitions"
    FENCED = "not a member any more, by the coordinator's word"
    PREPARE_LEAVING = "giving up its partitions, to leave"
    LEAVING = "telling the coordinator that it leaves"
    STALE = "has left, as its program did not ask for records"
    FATAL = "refused for good"


class ConsumerMemberEvent(Enum):
    """What moves a member."""

    JOIN = "a call for records begins to join"
    TARGET = "there is a target that the member does not have yet"
    AGREED = "an answer came, and the member has what it shall have"
    RECONCILED = "the program has given up and taken what it had to"
    ACKNOWLEDGED = "a heartbeat with what the member has was sent"
    FENCE = "the coordinator does not know this member, or its epoch"
    FAIL = "the coordinator refuses this member, and will do so again"
    PREPARE_LEAVE = "the program unsubscribes or closes, or did not ask for records for too long"
    LEAVE = "the heartbeat that leaves is begun"
    LEFT = "it was answered, or will not be"
    LEFT_UNUSED = "it was answered, or will not be, and the program is still subscribed"
    UNSUBSCRIBE = "the program unsubscribes, and nobody has to be told"


_S, _E = ConsumerMemberState, ConsumerMemberEvent

_OUT_OF_GROUP: Mapping[ConsumerMemberEvent, ConsumerMemberState] = {
    _E.FENCE: _S.FENCED,
    _E.FAIL: _S.FATAL,
    _E.PREPARE_LEAVE: _S.PREPARE_LEAVING,
}

TRANSITIONS: Mapping[ConsumerMemberState, Mapping[ConsumerMemberEvent, ConsumerMemberState]] = {
    _S.UNSUBSCRIBED: {_E.JOIN: _S.JOINING, _E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
    _S.JOINING: {_E.TARGET: _S.RECONCILING, _E.AGREED: _S.STABLE, **_OUT_OF_GROUP},
    _S.RECONCILING: {_E.TARGET: _S.RECONCILING, _E.AGREED: _S.STABLE, _E.RECONCILED: _S.ACKNOWLEDGING, **_OUT_OF_GROUP},
    _S.ACKNOWLEDGING: {_E.TARGET: _S.RECONCILING, _E.ACKNOWLEDGED: _S.STABLE, **_OUT_OF_GROUP},
    _S.STABLE: {_E.TARGET: _S.RECONCILING, _E.AGREED: _S.STABLE, **_OUT_OF_GROUP},
    _S.FENCED: {_E.JOIN: _S.JOINING, _E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
    _S.PREPARE_LEAVING: {_E.LEAVE: _S.LEAVING, _E.FENCE: _S.FENCED, _E.FAIL: _S.FATAL},
    _S.LEAVING: {_E.LEFT: _S.UNSUBSCRIBED, _E.LEFT_UNUSED: _S.STALE},
    _S.STALE: {_E.JOIN: _S.JOINING, _E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
    _S.FATAL: {_E.UNSUBSCRIBE: _S.UNSUBSCRIBED},
}

FOLLOWS_TARGETS = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
IN_GROUP = FOLLOWS_TARGETS | {_S.PREPARE_LEAVING}
"""Where heartbeats are sent."""
LOST = frozenset({_S.FENCED, _S.STALE, _S.FATAL})
"""Where partitions that the program still has are not its own any more."""

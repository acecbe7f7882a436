"""The states of a member of a consumer group (KIP-848). The table below defines every transition; no other code changes the state.

    UNSUBSCRIBED -> JOINING -> RECONCILING -> ACKNOWLEDGING -> STABLE -> RECONCILING -> ... -> PREPARE_LEAVING -> LEAVING -> UNSUBSCRIBED

There is one request, the heartbeat. Its answer may carry a target assignment: the partitions that the coordinator wants the member to have.
If the target differs from the current assignment, the member is RECONCILING: its program revokes partitions that are not in the target, and
takes the new ones. Then the member is ACKNOWLEDGING until a heartbeat with its new assignment is sent, which happens at once. A STABLE
member has its target. The member epoch is 0 while it joins, and rises with every step that the coordinator has seen.

Three sides move a member. The coordinator does with its answers: there is a TARGET, or nothing to do (AGREED); the member is unknown
(FENCE), or refused permanently (FAIL). The program does: only poll() begins to join (JOIN) or finishes a reconciliation (RECONCILED).
unsubscribe() and close() leave (PREPARE_LEAVE, LEAVE, LEFT), or only UNSUBSCRIBE if there is no membership to leave. If poll() is not
called for max.poll.interval.ms, the member leaves (LEFT_UNUSED at the end), and is STALE until the next poll(). It is STALE as well if the
program subscribes again while the member is leaving. The third side is the heartbeat: ACKNOWLEDGED, when one was sent. A member that is
FENCED, STALE or FATAL has lost its partitions, and the next poll() calls the listener for them. That poll() then joins again; FATAL ends
only with unsubscribe() or close().

What can never happen: a member that is UNSUBSCRIBED, FENCED, STALE or FATAL sends heartbeats; a member joins, with epoch 0, while it has
partitions; a partition is reported as revoked before its program has revoked it; a newer target changes a reconciliation that has begun
(it follows afterwards), or an older target is begun; a member without an epoch commits offsets; partitions are revoked or assigned, or a
listener is called, outside a call of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ConsumerMemberState(Enum):
    """The state of a member of a consumer group."""

    UNSUBSCRIBED = "not a member"
    JOINING = "waiting for the answer to its first heartbeat"
    RECONCILING = "revoking and taking partitions"
    ACKNOWLEDGING = "about to report its assignment to the coordinator"
    STABLE = "a member that has its partitions"
    FENCED = "not a member any more: the coordinator has fenced it"
    PREPARE_LEAVING = "revoking its partitions, to leave"
    LEAVING = "telling the coordinator that it leaves"
    STALE = "has left, and joins again with the next poll()"
    FATAL = "refused for good"


class ConsumerMemberEvent(Enum):
    """An event that changes the state of a member."""

    JOIN = "poll() begins to join"
    TARGET = "there is a target that differs from its assignment"
    AGREED = "an answer arrived, and the member has its target"
    RECONCILED = "the program has revoked and taken partitions"
    ACKNOWLEDGED = "a heartbeat with its assignment was sent"
    FENCE = "the coordinator does not know this member, or its epoch"
    FAIL = "the coordinator refuses this member permanently"
    PREPARE_LEAVE = "the program unsubscribes or closes, or did not call poll() in time"
    LEAVE = "the heartbeat that leaves is sent"
    LEFT = "it was answered, or has failed"
    LEFT_UNUSED = "it was answered, or has failed, and the program is still subscribed"
    UNSUBSCRIBE = "the program unsubscribes, without a membership to leave"


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
"""The states in which heartbeats are sent."""
LOST = frozenset({_S.FENCED, _S.STALE, _S.FATAL})
"""The states in which partitions that the program still has are lost."""

"""The states of a member of a classic group. The table below defines every transition; no other code changes the state.

    UNJOINED -> PREPARING_REBALANCE -> COMPLETING_REBALANCE -> STABLE -> PREPARING_REBALANCE -> ...

A rebalance has two requests. With JoinGroup the member sends its subscription. The coordinator answers when all members have sent theirs:
until then the member is PREPARING_REBALANCE. With SyncGroup the leader, one of the members, sends the assignment, and each member gets its
own partitions in the answer: until then it is COMPLETING_REBALANCE. Either request may have to be repeated. Joining again is always
correct, so JOIN leads to PREPARING_REBALANCE from every state. The generation counts the rebalances of a group. A member has a generation
from the answer to JoinGroup until the next answer to JoinGroup, or until its membership is LOST.

Two sides move a member. The coordinator does with its answers: it accepts the member (JOINED, SYNCED), asks for another rebalance, or does
not know the member any more (LOST). The program does, too: only poll() begins to join, unsubscribe() and close() leave the group (LOST),
and if poll() is not called for max.poll.interval.ms, the member leaves (LOST).

What can never happen: a heartbeat is sent while a JoinGroup or SyncGroup is in flight (it would wait behind it on the same connection, and
these requests keep the session alive themselves); offsets are committed for a generation that is not STABLE; a member is STABLE without
knowing its assignment; partitions are revoked or assigned, or a listener is called, outside a call of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class MemberState(Enum):
    """The state of a member of a classic group."""

    UNJOINED = "not a member"
    PREPARING_REBALANCE = "waiting for all members to join"
    COMPLETING_REBALANCE = "waiting for its partitions"
    STABLE = "a member that has its partitions"


class MemberEvent(Enum):
    """An event that changes the state of a member."""

    JOIN = "JoinGroup was sent"
    JOINED = "JoinGroup was answered with a generation"
    SYNCED = "SyncGroup was answered with an assignment"
    LOST = "the membership is lost: it was refused, expelled, or has left"


_S, _E = MemberState, MemberEvent

TRANSITIONS: Mapping[MemberState, Mapping[MemberEvent, MemberState]] = {
    _S.UNJOINED: {_E.JOIN: _S.PREPARING_REBALANCE, _E.LOST: _S.UNJOINED},
    _S.PREPARING_REBALANCE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.JOINED: _S.COMPLETING_REBALANCE, _E.LOST: _S.UNJOINED},
    _S.COMPLETING_REBALANCE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.SYNCED: _S.STABLE, _E.LOST: _S.UNJOINED},
    _S.STABLE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.LOST: _S.UNJOINED},
}

"""Where a member of a classic group stands. The table below is the behaviour; nothing else changes a state.

    UNJOINED -> PREPARING_REBALANCE -> COMPLETING_REBALANCE -> STABLE -> PREPARING_REBALANCE -> ...

A rebalance has two requests. JoinGroup says "here I am, and this is what I want", and is answered when every member has sent one:
PREPARING_REBALANCE. SyncGroup is answered with the member's partitions once the leader, one of the members, has sent what each of them
gets: COMPLETING_REBALANCE. Both may have to be sent again, and joining anew is always right, so JOIN leads to PREPARING_REBALANCE from
everywhere. The generation counts the rebalances of a group; a member has one from the answer to JoinGroup until it joins again or LOST it.

Two sides move a member. The coordinator does, by its answers: it accepts (JOINED, SYNCED), asks for another rebalance, or says that
the member is none any more (LOST). And the program does, since only a call for records begins to join, and a call that does not come for
max.poll.interval.ms makes the member leave (LOST).

What can never happen: that a heartbeat is sent while a JoinGroup or SyncGroup waits for its answer, as it would wait behind it on the same
connection (these requests say themselves that the member lives); that offsets are committed for a generation which is not STABLE; that
a member is STABLE without knowing its assignment; that partitions are given up, taken or told of outside a call of the program's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class MemberState(Enum):
    """See the module's theory."""

    UNJOINED = "not a member"
    PREPARING_REBALANCE = "waiting for all members to join"
    COMPLETING_REBALANCE = "waiting for its partitions"
    STABLE = "a member that has its partitions"


class MemberEvent(Enum):
    """What moves a member."""

    JOIN = "JoinGroup was sent"
    JOINED = "JoinGroup was answered with a generation"
    SYNCED = "SyncGroup was answered with an assignment"
    LOST = "the generation is over for this member: it was refused, expelled, or has left"


_S, _E = MemberState, MemberEvent

TRANSITIONS: Mapping[MemberState, Mapping[MemberEvent, MemberState]] = {
    _S.UNJOINED: {_E.JOIN: _S.PREPARING_REBALANCE, _E.LOST: _S.UNJOINED},
    _S.PREPARING_REBALANCE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.JOINED: _S.COMPLETING_REBALANCE, _E.LOST: _S.UNJOINED},
    _S.COMPLETING_REBALANCE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.SYNCED: _S.STABLE, _E.LOST: _S.UNJOINED},
    _S.STABLE: {_E.JOIN: _S.PREPARING_REBALANCE, _E.LOST: _S.UNJOINED},
}

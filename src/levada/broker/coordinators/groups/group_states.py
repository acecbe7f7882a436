"""The states of a classic group, as its coordinator keeps them.

A group divides the partitions of its topics among its members. They agree on an assignment in rounds, the generations. A rebalance, which
begins a generation, has two steps: all members join, and one of them becomes the leader; the leader then assigns the partitions, and each
member gets its assignment. The group's state changes when members join, send the assignment or leave. It also changes with time: a member
whose session expires is removed, and a rebalance waits at most as long as the largest rebalance timeout of the members. When another node
becomes the coordinator, the group ends at the old coordinator, and the new one starts with the state that was stored last.

- Empty: no members. The group is new, or all have left, or it is a simple group, for which clients commit offsets without being members.
- PreparingRebalance: members join; their requests wait. The generation does not change yet. Members that do not join in time are
  removed, except static ones, which stay until their sessions expire.
- CompletingRebalance: a new generation, which every member that has joined knows. The members' SyncGroup requests wait for the leader's
  SyncGroup.
- Stable: every member has its assignment, or can get it. Only this state and Empty are stored.
- Dead: deleted, converted to a consumer group, or no longer coordinated here. No state follows.

What can never happen: an assignment that reaches members of two generations; a new generation without a rebalance; the deletion of a group
with members. None of these has a row in TRANSITIONS. Assignments in the SyncGroup of any member but the leader are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """The state, by its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(StrEnum):
    """The events that move a classic group."""

    PREPARE = "prepare a rebalance"
    ALL_JOINED = "begin a generation with members"
    ALL_LEFT = "begin a generation without members"
    ASSIGN = "take the leader's assignment"
    RESTORE = "restore the stored members"
    DELETE = "be deleted"
    CONVERT = "become a consumer group"
    UNLOAD = "lose its coordinator"


_S, _E = State, Event

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    _S.EMPTY: {
        _E.PREPARE: _S.PREPARING_REBALANCE,
        _E.RESTORE: _S.STABLE,
        _E.DELETE: _S.DEAD,
        _E.UNLOAD: _S.DEAD,
    },
    _S.PREPARING_REBALANCE: {
        _E.ALL_JOINED: _S.COMPLETING_REBALANCE,
        _E.ALL_LEFT: _S.EMPTY,
        _E.CONVERT: _S.DEAD,
        _E.UNLOAD: _S.DEAD,
    },
    _S.COMPLETING_REBALANCE: {
        _E.ASSIGN: _S.STABLE,
        _E.PREPARE: _S.PREPARING_REBALANCE,
        _E.CONVERT: _S.DEAD,
        _E.UNLOAD: _S.DEAD,
    },
    _S.STABLE: {
        _E.PREPARE: _S.PREPARING_REBALANCE,
        _E.CONVERT: _S.DEAD,
        _E.UNLOAD: _S.DEAD,
    },
    _S.DEAD: {},
}

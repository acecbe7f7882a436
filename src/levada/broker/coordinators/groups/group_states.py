"""The states of a classic group, as its coordinator keeps them.

A group shares its topics' partitions among its members. Its members agree on the sharing in rounds, the generations. A round, called a
rebalance, has two steps: all members join and one of them becomes the leader; the leader assigns partitions to all, and each gets its part.
Members move the group by joining, sending the assignment and leaving. Time moves it: a member that is silent for its session timeout is
removed, and a rebalance waits no longer than the largest rebalance timeout of the members. A change of the coordinator ends the group at
the old one; the new one begins with what was stored last.

- Empty: no members. Either it is new, or all have left, or it is a simple group, for which somebody commits offsets without membership.
- PreparingRebalance: members join; their requests wait. The generation does not change yet. A member that does not join in time is
  removed, but for static ones, which keep their place until their session is over.
- CompletingRebalance: a new generation, which every member was told. The members' requests for the assignment wait for the leader's.
- Stable: everybody has, or may ask for, its assignment. Only this state and Empty are stored.
- Dead: deleted, a consumer group from now on, or no longer this coordinator's. Nothing follows.

What can never be: an assignment that reaches members of two generations; a new generation without a rebalance; an assignment of anyone
but the leader; a group with members that is deleted. None of these has a row in TRANSITIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from levada.errors import IllegalStateError


class State(StrEnum):
    """The values are the names in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(StrEnum):
    """What moves a classic group."""

    PREPARE = "prepare a rebalance"
    ALL_JOINED = "begin a generation with members"
    ALL_LEFT = "begin a generation without members"
    ASSIGN = "take the leader's assignment"
    RESTORE = "restore the stored members"
    DELETE = "be deleted"
    CONVERT = "become a consumer group"
    UNLOAD = "lose its coordinator"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.EMPTY, Event.PREPARE): State.PREPARING_REBALANCE,
    (State.EMPTY, Event.RESTORE): State.STABLE,
    (State.EMPTY, Event.DELETE): State.DEAD,
    (State.EMPTY, Event.UNLOAD): State.DEAD,
    (State.PREPARING_REBALANCE, Event.ALL_JOINED): State.COMPLETING_REBALANCE,
    (State.PREPARING_REBALANCE, Event.ALL_LEFT): State.EMPTY,
    (State.PREPARING_REBALANCE, Event.CONVERT): State.DEAD,
    (State.PREPARING_REBALANCE, Event.UNLOAD): State.DEAD,
    (State.COMPLETING_REBALANCE, Event.ASSIGN): State.STABLE,
    (State.COMPLETING_REBALANCE, Event.PREPARE): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Event.CONVERT): State.DEAD,
    (State.COMPLETING_REBALANCE, Event.UNLOAD): State.DEAD,
    (State.STABLE, Event.PREPARE): State.PREPARING_REBALANCE,
    (State.STABLE, Event.CONVERT): State.DEAD,
    (State.STABLE, Event.UNLOAD): State.DEAD,
}


def after(state: State, event: Event) -> State:
    """Return the state that an event leads to. IllegalStateError for a transition that can never be."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateError(f"a group in state {state} cannot {event}") from None

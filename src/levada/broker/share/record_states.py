"""The states of a record for one share group, as the leader of its partition keeps them (KIP-932).

The members of a share group read the same partitions, and each record is given to one of them at a time. Members move records by fetching
and by acknowledging. Time moves them as well: a member has a record for as long as the lock on it lasts. So does the end of a member's
share session, and so do the log and a change of leaders.

- Available: it can be acquired. Every record behind those that were ever acquired is available, and is not written down as such.
- Acquired: one member has it, until its lock ends. Only that member may say what became of it.
- Acknowledged: it was processed.
- Archived: it is not delivered any more: it was rejected, it does not exist, or it was delivered as often as the group allows.

What can never be: a record that two members have; a record that is delivered again after it was acknowledged or archived; a record that is
delivered more often than the group allows. None of these has a row in TRANSITIONS.

How often a record was delivered is counted when it is acquired. Only what becomes of a record is stored, not that it was acquired, so a new
leader does not count the delivery under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from levada.errors import IllegalStateError


class RecordState(StrEnum):
    """The values are for people; kept_shares has the numbers that are stored."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"


class Event(StrEnum):
    """What moves a record."""

    ACQUIRE = "be given to a member"
    ACCEPT = "be accepted"
    RELEASE = "be released"
    REJECT = "be rejected"
    GAP = "turn out not to exist"
    RENEW = "be kept for longer"
    TIME_OUT = "be locked for too long"
    EXHAUST = "come back after its last delivery"
    LOSE_SESSION = "lose the session of its member"
    LOSE_LEADER = "lose its leader"
    COMPACT = "be gone from the log"
    FILTER = "belong to an aborted transaction"


TRANSITIONS: Mapping[tuple[RecordState, Event], RecordState] = {
    (RecordState.AVAILABLE, Event.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, Event.COMPACT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, Event.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.RENEW): RecordState.ACQUIRED,
    (RecordState.ACQUIRED, Event.TIME_OUT): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.LOSE_SESSION): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.LOSE_LEADER): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.FILTER): RecordState.ARCHIVED,
}

COUNTED = frozenset({Event.RELEASE, Event.TIME_OUT, Event.LOSE_SESSION})
"""What makes a record available again after a delivery that counts. After the last one, EXHAUST happens instead."""

FINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""What nothing follows: the group is done with the record."""


def after(state: RecordState, event: Event) -> RecordState:
    """Return the state that an event leads to. IllegalStateError for a transition that can never be."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateError(f"a record that is {state} cannot {event}") from None

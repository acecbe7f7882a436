"""The states of a record for one share group, as the leader of its partition keeps them (KIP-932).

The members of a share group read the same partitions, and each record is delivered to one of them at a time. Members move records by
fetching and by acknowledging. Time moves them, because a member's lock on a record expires. The end of a member's share session, changes of
the log and changes of the leader move them as well.

- Available: it can be acquired. All records after the last batch that was acquired are available; their state is not stored.
- Acquired: one member has it, until its lock expires. Only that member can acknowledge it.
- Acknowledged: it was processed.
- Archived: it is not delivered any more: it was rejected, does not exist, belongs to an aborted transaction, or has reached the group's
  delivery count limit.

What can never happen: a record that two members have; a record that is delivered after it was acknowledged or archived. Neither has a row
in TRANSITIONS. A record that comes back from its last delivery is archived (EXHAUST), so it is not delivered more often than the group
allows.

Deliveries are counted when a record is acquired. Only the outcome of a delivery is stored, not that the record was acquired. So a new
leader does not count the delivery in progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RecordState(StrEnum):
    """The state of a record in a share partition. The numbers by which states are stored are in share_records."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"


class Event(StrEnum):
    """The events that change the state of a record."""

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


_S, _E = RecordState, Event

TRANSITIONS: Mapping[RecordState, Mapping[Event, RecordState]] = {
    _S.AVAILABLE: {
        _E.ACQUIRE: _S.ACQUIRED,
        _E.COMPACT: _S.ARCHIVED,
    },
    _S.ACQUIRED: {
        _E.ACCEPT: _S.ACKNOWLEDGED,
        _E.RELEASE: _S.AVAILABLE,
        _E.REJECT: _S.ARCHIVED,
        _E.GAP: _S.ARCHIVED,
        _E.RENEW: _S.ACQUIRED,
        _E.TIME_OUT: _S.AVAILABLE,
        _E.EXHAUST: _S.ARCHIVED,
        _E.LOSE_SESSION: _S.AVAILABLE,
        _E.LOSE_LEADER: _S.AVAILABLE,
        _E.FILTER: _S.ARCHIVED,
    },
    _S.ACKNOWLEDGED: {},
    _S.ARCHIVED: {},
}

COUNTED = frozenset({Event.RELEASE, Event.TIME_OUT, Event.LOSE_SESSION})
"""Events that make a record available again after a delivery that counts. After the last delivery, EXHAUST happens instead."""

FINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""The states that no state follows: the record is finished."""

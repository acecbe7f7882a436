"""The states of a transactional id, as its coordinator keeps them.

A transactional id is a row that outlives its producers: a producer id, an epoch, and at most one transaction that is open or being ended.
Four parties move it. The producer initialises it, adds partitions and asks for the end. Another producer with the same id initialises it
too and so fences the first one. Time ends a transaction that is open for too long and removes an id that is not used any more. Markers, the
records that end the transaction in its partitions, report that all of them are written.

- Empty: initialised, no transaction yet since then.
- Ongoing: partitions were added. Their leaders take the producer's records; readers of committed data do not see them yet.
- PrepareEpochFence: the transaction is being taken away from its producer, which has timed out or has a successor: its epoch is overtaken,
  the abort follows in the same step. It is never stored, and no request ever meets it.
- PrepareCommit, PrepareAbort: the outcome is decided and can no longer change; the markers are being written. The client has its answer
  already. Whatever it asks for next is answered with CONCURRENT_TRANSACTIONS.
- CompleteCommit, CompleteAbort: all markers are written. The state remembers the outcome, so that the same EndTxn can be repeated.
- Dead: removed after transactional.id.expiration.ms without use. Like PrepareEpochFence it does not last.

What can never be: an outcome that changes; a transaction that goes on after its end was decided; a commit by anyone but the producer; a
transaction that is removed before its markers are written. None of these has a row in TRANSITIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from levada.errors import IllegalStateError


class State(StrEnum):
    """The values are the names in DescribeTransactions and ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class Event(StrEnum):
    """What moves a transactional id. ABORT_NOTHING: an abort without a transaction, which bumps the epoch (KIP-890)."""

    INITIALISE = "initialise"
    ADD = "add partitions"
    FENCE = "fence the producer"
    COMMIT = "commit"
    ABORT = "abort"
    ABORT_NOTHING = "abort without a transaction"
    MARKERS_WRITTEN = "all markers are written"
    EXPIRE = "expire the id"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.EMPTY, Event.INITIALISE): State.EMPTY,
    (State.EMPTY, Event.ADD): State.ONGOING,
    (State.EMPTY, Event.ABORT_NOTHING): State.PREPARE_ABORT,
    (State.EMPTY, Event.EXPIRE): State.DEAD,
    (State.ONGOING, Event.ADD): State.ONGOING,
    (State.ONGOING, Event.FENCE): State.PREPARE_EPOCH_FENCE,
    (State.ONGOING, Event.COMMIT): State.PREPARE_COMMIT,
    (State.ONGOING, Event.ABORT): State.PREPARE_ABORT,
    (State.PREPARE_EPOCH_FENCE, Event.ABORT): State.PREPARE_ABORT,
    (State.PREPARE_COMMIT, Event.MARKERS_WRITTEN): State.COMPLETE_COMMIT,
    (State.PREPARE_ABORT, Event.MARKERS_WRITTEN): State.COMPLETE_ABORT,
    (State.COMPLETE_COMMIT, Event.INITIALISE): State.EMPTY,
    (State.COMPLETE_COMMIT, Event.ADD): State.ONGOING,
    (State.COMPLETE_COMMIT, Event.ABORT_NOTHING): State.PREPARE_ABORT,
    (State.COMPLETE_COMMIT, Event.EXPIRE): State.DEAD,
    (State.COMPLETE_ABORT, Event.INITIALISE): State.EMPTY,
    (State.COMPLETE_ABORT, Event.ADD): State.ONGOING,
    (State.COMPLETE_ABORT, Event.ABORT_NOTHING): State.PREPARE_ABORT,
    (State.COMPLETE_ABORT, Event.EXPIRE): State.DEAD,
}

ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


def after(state: State, event: Event) -> State:
    """Return the state that an event leads to. IllegalStateError for a transition that can never be."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateError(f"a transactional id in state {state} cannot {event}") from None

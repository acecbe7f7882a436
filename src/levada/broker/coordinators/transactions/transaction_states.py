"""The states of a transactional id, as its coordinator keeps them.

A transactional id outlives its producers: it has a producer id, an epoch, and at most one transaction that is open or being completed.
Four parties move it. The producer initializes it, adds partitions and asks for the end. Another producer with the same id initializes it
too, and so fences the first one. Time aborts a transaction that is open for too long, and removes an id that is not used any more. The last
party is the coordinator itself, when all markers are written that end the transaction in its partitions.

- Empty: initialized, without a transaction since then.
- Ongoing: partitions were added. Their leaders accept the producer's records; readers of committed data do not see them yet.
- PrepareEpochFence: the transaction is taken from its producer, which has timed out or has a successor. The epoch is raised, and the abort
  follows in the same step. This state is never stored, and no request ever finds it.
- PrepareCommit, PrepareAbort: the outcome is decided and can no longer change; the markers are being written. The client already has its
  response. Its next request gets CONCURRENT_TRANSACTIONS.
- CompleteCommit, CompleteAbort: all markers are written. The state keeps the outcome, so that the same EndTxn can be repeated.
- Dead: removed after transactional.id.expiration.ms without use. Like PrepareEpochFence, it does not last.

What can never happen: an outcome that changes; a transaction that continues after its outcome was decided; a commit by any client but the
producer; the removal of a transaction before its markers are written. None of these has a row in TRANSITIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from levada.errors import IllegalStateError


class State(StrEnum):
    """The state, by its name in DescribeTransactions and ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class Event(StrEnum):
    """The events that move a transactional id. ABORT_NOTHING: an abort without a transaction, which raises the epoch (KIP-890)."""

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
    """Return the state after an event. Raises IllegalStateError for a transition that TRANSITIONS does not have."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateError(f"a transactional id in state {state} cannot {event}") from None

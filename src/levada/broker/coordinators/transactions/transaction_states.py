"""The states of a transactional id, as its coordinator keeps them.

A transactional id outlives its producers: it has a producer id, an epoch, and at most one transaction that is open or being completed.
Four parties move it. The producer initializes it, adds partitions and asks for the end. Another producer with the same id initializes it
too, and so fences the first one. Time aborts a transaction that is open for too long, and removes an id that is not used any more. The last
party is the coordinator itself, when all markers are written that end the transaction in its partitions.

- Empty: initialized, without a transaction since then.
- Ongoing: partitions were added. Their leaders accept the producer's records; readers of committed data do not see them yet.
- PrepareEpochFence: the transaction is taken from its producer, because it has timed out, InitProducerId came while it was open, or a
  test aborts it. The epoch is raised, and the abort follows in the same step. This state is never stored, and no request ever finds it.
- PrepareCommit, PrepareAbort: the outcome is decided and can no longer change; the markers are being written. The client already has its
  response. Its next request gets CONCURRENT_TRANSACTIONS.
- CompleteCommit, CompleteAbort: all markers are written. The state keeps the outcome, so that the same EndTxn can be repeated.
- Dead: removed after transactional.id.expiration.ms without use, or earlier by a test. Like PrepareEpochFence, it does not last.

What can never happen: an outcome that changes; a transaction that continues after its outcome was decided; a commit by any client but the
producer; the removal of a transaction before its markers are written. None of these has a row in TRANSITIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


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


_S, _E = State, Event

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    _S.EMPTY: {
        _E.INITIALISE: _S.EMPTY,
        _E.ADD: _S.ONGOING,
        _E.ABORT_NOTHING: _S.PREPARE_ABORT,
        _E.EXPIRE: _S.DEAD,
    },
    _S.ONGOING: {
        _E.ADD: _S.ONGOING,
        _E.FENCE: _S.PREPARE_EPOCH_FENCE,
        _E.COMMIT: _S.PREPARE_COMMIT,
        _E.ABORT: _S.PREPARE_ABORT,
    },
    _S.PREPARE_COMMIT: {_E.MARKERS_WRITTEN: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_E.MARKERS_WRITTEN: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: {
        _E.INITIALISE: _S.EMPTY,
        _E.ADD: _S.ONGOING,
        _E.ABORT_NOTHING: _S.PREPARE_ABORT,
        _E.EXPIRE: _S.DEAD,
    },
    _S.COMPLETE_ABORT: {
        _E.INITIALISE: _S.EMPTY,
        _E.ADD: _S.ONGOING,
        _E.ABORT_NOTHING: _S.PREPARE_ABORT,
        _E.EXPIRE: _S.DEAD,
    },
    _S.DEAD: {},
    _S.PREPARE_EPOCH_FENCE: {_E.ABORT: _S.PREPARE_ABORT},
}

ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

"""The states of a transactional producer. The table below defines every transition; no other code changes the state.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> PREPARING -> COMMITTING -> READY
                                                     |                            (or -> ABORTING -> READY)

Four causes change the state. First, the calls of the program: INITIALIZE, BEGIN, PREPARE, COMMIT, ABORT, HAND_OVER, FORGET. Second, the
responses of the coordinator. Third, a record or a request that fails for good, at any moment (FAILED): the transaction is incomplete then,
so it can only be aborted. Fourth, a call that is interrupted, by a timeout for example (NOT_PREPARED, ANSWER_LOST and others). If the
table has no transition for a call in the current state, the call raises IllegalStateError and changes nothing. In FATAL_ERROR, it raises
the fatal error.

A commit has two phases. In PREPARING, the producer waits until every record is acknowledged. If the call is interrupted in this phase, the
transaction stays open (NOT_PREPARED). After this phase, the transaction can also be handed over to another process. In COMMITTING, the
producer sends EndTxn. If there is no response, the commit may be carried out now, later or never: OUTCOME_UNKNOWN. Then the program may
repeat the same call, which sends the same EndTxn with the same version, producer id and epoch; the coordinator carries it out only once.
begin_transaction() first initializes the producer again. This ends a transaction that may be open, and gets a new epoch, so that a delayed
request with the old epoch cannot affect a later transaction. abort_transaction() after such a commit finds out how the transaction ended.

The older transaction protocol keeps the epoch for the next transaction. A request without a response may arrive late, during the next
transaction. So after a transaction with such a request, the producer MUST_INITIALIZE_AGAIN, even if the transaction was ended. In the newer
protocol (KIP-890), the end of each transaction brings a new epoch.

What can never happen: a transaction begins while the previous one may still be open; a transaction with a failed record is committed; a
fenced producer writes again (no transition leaves FATAL_ERROR); a producer that has handed over its transaction ends the transaction, or
requests a new epoch, which would abort the transaction (only a fatal error leaves HANDED_OVER).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready, with no transaction open"
    IN_TRANSACTION = "in a transaction"
    PREPARING = "waiting for the records of its transaction"
    COMMITTING = "committing a transaction"
    ABORTING = "aborting a transaction"
    ABORTABLE_ERROR = "in a transaction that has to be aborted"
    OUTCOME_UNKNOWN = "not sure how its last transaction ended"
    MUST_INITIALIZE_AGAIN = "to be initialized again"
    HANDED_OVER = "without its transaction, which was handed over"
    FATAL_ERROR = "unusable"


class Event(Enum):
    """An event that may change the state.

    The first six are steps of the program's calls, and their values name these calls. The values of the other events say what has happened.
    """

    INITIALIZE = "init_transactions()"
    BEGIN = "begin_transaction()"
    PREPARE = "commit_transaction() or detach_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    HAND_OVER = "detach_transaction()"
    FORGET = "the producer id and epoch are forgotten"
    INITIALIZED = "the coordinator gave a producer id and epoch"
    NOT_INITIALIZED = "it gave none"
    NOT_PREPARED = "not every record was acknowledged, and its end was not asked for"
    ENDED = "the transaction was ended"
    NEW_IDENTITY_NEEDED = "the producer id and epoch must not be used for another transaction"
    ANSWER_LOST = "whether it was ended is not known"
    FAILED = "a record, or a request, failed for good"
    FAILED_FOR_EVER = "the producer cannot go on"


_S, _E = State, Event

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    _S.UNINITIALIZED: {_E.INITIALIZE: _S.INITIALIZING, _E.FORGET: _S.UNINITIALIZED},
    _S.INITIALIZING: {
        _E.INITIALIZED: _S.READY,
        _E.NOT_INITIALIZED: _S.UNINITIALIZED,
        _E.NEW_IDENTITY_NEEDED: _S.MUST_INITIALIZE_AGAIN,
        _E.ANSWER_LOST: _S.OUTCOME_UNKNOWN,
    },
    _S.READY: {_E.BEGIN: _S.IN_TRANSACTION, _E.FORGET: _S.UNINITIALIZED},
    _S.IN_TRANSACTION: {_E.PREPARE: _S.PREPARING, _E.ABORT: _S.ABORTING, _E.FAILED: _S.ABORTABLE_ERROR},
    _S.PREPARING: {
        _E.NOT_PREPARED: _S.IN_TRANSACTION,
        _E.COMMIT: _S.COMMITTING,
        _E.HAND_OVER: _S.HANDED_OVER,
        _E.FAILED: _S.ABORTABLE_ERROR,
    },
    _S.COMMITTING: {
        _E.ENDED: _S.READY,
        _E.NEW_IDENTITY_NEEDED: _S.MUST_INITIALIZE_AGAIN,
        _E.ANSWER_LOST: _S.OUTCOME_UNKNOWN,
        _E.FAILED: _S.ABORTABLE_ERROR,
    },
    _S.ABORTING: {
        # The transaction is being aborted already, so a failed record changes nothing.
        _E.FAILED: _S.ABORTING,
        _E.NOT_PREPARED: _S.ABORTABLE_ERROR,
        _E.ENDED: _S.READY,
        _E.NEW_IDENTITY_NEEDED: _S.MUST_INITIALIZE_AGAIN,
        _E.ANSWER_LOST: _S.OUTCOME_UNKNOWN,
    },
    _S.ABORTABLE_ERROR: {_E.ABORT: _S.ABORTING, _E.FAILED: _S.ABORTABLE_ERROR},
    _S.OUTCOME_UNKNOWN: {_E.COMMIT: _S.COMMITTING, _E.ABORT: _S.ABORTING, _E.INITIALIZE: _S.INITIALIZING},
    _S.MUST_INITIALIZE_AGAIN: {_E.INITIALIZE: _S.INITIALIZING, _E.FORGET: _S.UNINITIALIZED},
    _S.HANDED_OVER: {},
    _S.FATAL_ERROR: {_E.FAILED: _S.FATAL_ERROR},
}
"""The next state for each state and event. FAILED_FOR_EVER, which is not in the table, leads from every state to FATAL_ERROR."""

ADVICE: Mapping[State, str] = {
    _S.UNINITIALIZED: "call init_transactions() first",
    _S.INITIALIZING: "another call of this producer is under way",
    _S.READY: "call begin_transaction() first",
    _S.IN_TRANSACTION: "commit_transaction() or abort_transaction() ends it",
    _S.PREPARING: "another call of this producer is under way",
    _S.COMMITTING: "another call of this producer is under way",
    _S.ABORTING: "another call of this producer is under way",
    _S.ABORTABLE_ERROR: "call abort_transaction()",
    _S.OUTCOME_UNKNOWN: "repeat the call that got no answer, or begin_transaction() to go on with another one",
    _S.MUST_INITIALIZE_AGAIN: "call begin_transaction(), which does that",
    _S.HANDED_OVER: "detach_transaction() returns its handle again; make another producer for the next transaction",
    _S.FATAL_ERROR: "close this producer and make another one",
}
"""Advice for the error text if a state does not allow a record or a call. _OF_CALLS has better advice for some calls."""

_INITIALIZED = "once is enough: init_transactions() was done before"
_NOTHING_OPEN = "there is nothing to end: begin_transaction() begins a transaction, which this call then ends"
_OF_CALLS: Mapping[tuple[State, Event], str] = {
    (_S.READY, _E.INITIALIZE): f"{_INITIALIZED}; call begin_transaction()",
    (_S.IN_TRANSACTION, _E.INITIALIZE): f"{_INITIALIZED}; commit_transaction() or abort_transaction() ends the transaction",
    (_S.READY, _E.COMMIT): _NOTHING_OPEN,
    (_S.READY, _E.ABORT): _NOTHING_OPEN,
    (_S.MUST_INITIALIZE_AGAIN, _E.COMMIT): _NOTHING_OPEN,
    (_S.MUST_INITIALIZE_AGAIN, _E.ABORT): _NOTHING_OPEN,
}


def advice(state: State, call: Event) -> str:
    """Return the advice for the error text if a state does not allow a call."""
    return _OF_CALLS.get((state, call), ADVICE[state])


def after(state: State, event: Event) -> State | None:
    """Return the state after an event; None if the state does not allow the event."""
    return State.FATAL_ERROR if event is Event.FAILED_FOR_EVER else TRANSITIONS[state].get(event)

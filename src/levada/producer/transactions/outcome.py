"""Finds the outcome of a transaction from the responses to EndTxn, after a commit without a response.

The coordinator keeps the last result of a producer id and epoch. While it does, its response shows whether the transaction was committed or
aborted. After another producer was initialized, or the transactional.id has expired, the response is the same in both cases.
"""

from __future__ import annotations

from copy import copy
from enum import Enum

from levada.error_codes import ErrorCode
from levada.errors import ClosedError, KafkaError, ProducerFencedError, TransactionOutcomeUnknownError
from levada.producer.transactions.requests import EndTxn


class Settled(Enum):
    """What the coordinator's responses show about the outcome of a transaction."""

    ABORTED = "it is aborted"
    COMMITTED = "it was committed"
    UNKNOWN = "whether it was committed is not known"


def settled_by_abort(code: ErrorCode) -> Settled:
    """Return the outcome of a transaction whose commit got no response, from the error code of a later abort with the same epoch."""
    if code is ErrorCode.NONE:
        return Settled.ABORTED
    return Settled.COMMITTED if code is ErrorCode.INVALID_TXN_STATE else Settled.UNKNOWN


def may_be_carried_out(code: ErrorCode) -> bool:
    """Whether a request may have been carried out although its response has a retriable error.

    A coordinator sends such an error if it could not write to its log in time, or is no longer the coordinator. The change that it has
    written may still become valid.
    """
    return code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


def not_known(name: str, ending: EndTxn, broken_off: KafkaError, last: str) -> TransactionOutcomeUnknownError:
    """Return the error for an interrupted EndTxn.

    name: the transaction. broken_off: the error that interrupted the call. last: text about the last failed attempt; "" without one.
    """
    call = "commit_transaction()" if ending.commits else "abort_transaction()"
    advice = f"repeat {call} to learn it, or begin_transaction() to go on with another one"
    if isinstance(broken_off, ClosedError):
        advice = "init_transactions() of the next producer of the transactional id settles it; read then what is committed"
    why = f"{broken_off} (last: {last})" if last else str(broken_off)
    return TransactionOutcomeUnknownError(
        f"{name}: {why}; whether it was {'committed' if ending.commits else 'aborted'} is not known; {advice}"
    )


def fenced(what: str, timeout_ms: int, doubt: str) -> ProducerFencedError:
    """Return the error for a fenced producer. doubt: text if it is unknown whether its transaction was committed; "" if it was not."""
    return ProducerFencedError(
        f"{what}: another producer has taken over the transactional id, or the transaction was open for longer than "
        f"transaction.timeout.ms={timeout_ms} and the coordinator aborted it; {doubt or 'nothing of it is committed'}; close this producer"
    )


def told_again(error: KafkaError) -> KafkaError:
    """Return a copy of an error that was raised before, because raising an error changes it."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again

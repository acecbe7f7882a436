"""What the responses to EndTxn prove about a transaction after a commit without a response.

The coordinator keeps the last result of a producer id and epoch. Only while it does, a response can tell a committed transaction from an
aborted one. After another producer was initialized, or the transactional.id has expired, both look alike.
"""

from __future__ import annotations

from copy import copy
from enum import Enum

from levada.error_codes import ErrorCode
from levada.errors import ClosedError, KafkaError, ProducerFencedError, TransactionOutcomeUnknownError
from levada.producer.transactions.requests import EndTxn


class Settled(Enum):
    """The outcome of a transaction."""

    ABORTED = "it is aborted"
    COMMITTED = "it was committed"
    UNKNOWN = "whether it was committed is not known"


def settled_by_abort(code: ErrorCode) -> Settled:
    """Return the outcome that the response to an abort shows, after a commit by the same producer id and epoch without a response."""
    if code is ErrorCode.NONE:
        return Settled.ABORTED
    return Settled.COMMITTED if code is ErrorCode.INVALID_TXN_STATE else Settled.UNKNOWN


def may_be_carried_out(code: ErrorCode) -> bool:
    """Whether a request may have been carried out although its response is a retriable error.

    A coordinator that cannot write to its log in time, or is moved meanwhile, sends such an error, and what it has written may still count.
    """
    return code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


def not_known(name: str, ending: EndTxn, broken_off: KafkaError, last: str) -> TransactionOutcomeUnknownError:
    """Return the error for an interrupted EndTxn. last: the last failure; empty without one."""
    call = "commit_transaction()" if ending.commits else "abort_transaction()"
    advice = f"repeat {call} to learn it, or begin_transaction() to go on with another one"
    if isinstance(broken_off, ClosedError):
        advice = "init_transactions() of the next producer of the transactional id settles it; read then what is committed"
    why = f"{broken_off} (last: {last})" if last else str(broken_off)
    return TransactionOutcomeUnknownError(
        f"{name}: {why}; whether it was {'committed' if ending.commits else 'aborted'} is not known; {advice}"
    )


def fenced(what: str, timeout_ms: int, doubt: str) -> ProducerFencedError:
    """Return the error for a fenced producer. doubt: what is unknown about its transaction; empty for nothing."""
    return ProducerFencedError(
        f"{what}: another producer has taken over the transactional id, or the transaction was open for longer than "
        f"transaction.timeout.ms={timeout_ms} and the coordinator aborted it; {doubt or 'nothing of it is committed'}; close this producer"
    )


def told_again(error: KafkaError) -> KafkaError:
    """Return a copy of an error that was raised before, because raising changes it."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again

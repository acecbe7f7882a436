"""What the answers to EndTxn prove about a transaction whose commit was asked for before and got no answer.

The coordinator keeps the last end of a producer id and epoch. Only while it does can an answer tell one outcome from the other: once
another producer was initialized, or the transactional id was forgotten, a transaction that was committed and one that was not look alike.
"""

from __future__ import annotations

from copy import copy
from enum import Enum

from levada.error_codes import ErrorCode
from levada.errors import ClosedError, KafkaError, ProducerFencedError, TransactionOutcomeUnknownError
from levada.producer.transactions.requests import EndTxn


class Settled(Enum):
    """What became of a transaction."""

    ABORTED = "it is aborted"
    COMMITTED = "it was committed"
    UNKNOWN = "whether it was committed is not known"


def settled_by_abort(code: ErrorCode) -> Settled:
    """Return what the answer to an abort says, where a commit by the same producer id and epoch may have been carried out."""
    if code is ErrorCode.NONE:
        return Settled.ABORTED
    return Settled.COMMITTED if code is ErrorCode.INVALID_TXN_STATE else Settled.UNKNOWN


def may_be_carried_out(code: ErrorCode) -> bool:
    """Whether a request may have been carried out although it was answered with an error that asks for a repetition.

    A coordinator that cannot write to its log in time, or loses it meanwhile, answers so, and what it has written may still count.
    """
    return code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


def not_known(name: str, ending: EndTxn, broken_off: KafkaError, last: str) -> TransactionOutcomeUnknownError:
    """Return the error for an end that was asked for and not waited for until its answer. last: what failed last, empty for nothing."""
    call = "commit_transaction()" if ending.commits else "abort_transaction()"
    advice = f"repeat {call} to learn it, or begin_transaction() to go on with another one"
    if isinstance(broken_off, ClosedError):
        advice = "init_transactions() of the next producer of the transactional id settles it; read then what is committed"
    why = f"{broken_off} (last: {last})" if last else str(broken_off)
    return TransactionOutcomeUnknownError(
        f"{name}: {why}; whether it was {'committed' if ending.commits else 'aborted'} is not known; {advice}"
    )


def fenced(what: str, timeout_ms: int, doubt: str) -> ProducerFencedError:
    """Return the error for a producer whose epoch has passed. doubt: what is not known of its transaction, empty for nothing."""
    return ProducerFencedError(
        f"{what}: another producer has taken over the transactional id, or the transaction was open for longer than "
        f"transaction.timeout.ms={timeout_ms} and the coordinator aborted it; {doubt or 'nothing of it is committed'}; close this producer"
    )


def told_again(error: KafkaError) -> KafkaError:
    """Return a copy of an error that was told before: raising one changes it."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again

"""What the answers to EndTxn prove about a transaction whose commit was asked for before and got no answer.

The coordinator keeps the last end of a producer id and epoch. Only while it does can an answer tell one outcome from the other: once
another producer was initialized, or the transactional id was forgotten, a transaction that was committed and one that was not look alike.
"""

from __future__ import annotations

from enum import Enum

from levada.error_codes import ErrorCode


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

"""What becomes of a transaction when its producer is closed.

A call that another thread or task has under way comes first: it is waited for, since a commit that is broken off may be carried out or not.
Then what is open is aborted, and an abort that got no answer is asked for again. A commit that got none is left to the next producer of
the transactional id, whose init_transactions() settles it: this program can no longer be told.
"""

from __future__ import annotations

from levada.base.flow import Flow, Wait
from levada.producer.transactions.manager import TransactionManager
from levada.producer.transactions.states import State


def needs_end(transactions: TransactionManager) -> bool:
    """Whether end() has something to wait for, or to abort."""
    return transactions.is_in_call or transactions.is_open or _abort_is_unanswered(transactions)


def end(transactions: TransactionManager) -> Flow[None]:
    """Leave no transaction open. Raises what keeps the transaction from being aborted."""
    while transactions.is_in_call:
        yield Wait(transactions.call_over())
    if transactions.is_open or _abort_is_unanswered(transactions):
        yield from transactions.abort()


def left_behind(transactions: TransactionManager) -> str:
    """Say what of a transaction is left when the producer ends now; empty when nothing is."""
    ending = transactions.unanswered
    if transactions.state is State.FATAL_ERROR:
        return ""
    if ending is not None and ending.commits:
        return "a commit that was asked for and not answered, which may yet be carried out"
    if ending is not None:
        return "a transaction whose abort was not answered, which its coordinator aborts later"
    if transactions.is_in_call or transactions.is_open:
        return "a transaction open, which its coordinator aborts later"
    return ""


def _abort_is_unanswered(transactions: TransactionManager) -> bool:
    ending = transactions.unanswered
    return transactions.state is State.OUTCOME_UNKNOWN and ending is not None and not ending.commits

"""Ending a transaction that its producer has handed over (TransactionHandle): in another process, and as often as it takes.

EndTxn is asked for by the producer id and epoch of the handle and never by any others: a new InitProducerId would abort what is open, and
make it impossible to learn what became of it. So a repetition is safe: what was carried out is answered as if it had just been. What
brokers of Kafka 3.9 and 4.4 answer in other cases is the table below, under two conditions that are the caller's: an end is repeated by
the same version, which the handle keeps, and the transactional id is not used again before the outcome is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from levada.admin.retry import Attempts
from levada.client.coordinator_finder import FORGET_ON, CoordinatorFinder, CoordinatorKind
from levada.client.destination import Coordinator
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, TimeoutError, TransactionOutcomeUnknownError, broker_error
from levada.flow import Call, Flow
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.types import TransactionHandle

FIRST_WITH_NEW_EPOCH = 5
"""The version of EndTxn that belongs to the newer transaction protocol; those before it are alike."""

_NOT_OPEN = (
    "it is open no more: it took longer than transaction.timeout.ms and its coordinator aborted it, or a producer was initialized "
    "with this transactional id, which aborts what is open"
)
# Another call may have committed it before that, here or elsewhere.
_NOT_KNOWN = f"whether it was committed is not known: {_NOT_OPEN}; this call has not committed it, one before it may have"

COMMIT_SAYS: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_TXN_STATE: f"not committed: it was aborted before, or {_NOT_OPEN}",
    ErrorCode.PRODUCER_FENCED: _NOT_KNOWN,
    ErrorCode.INVALID_PRODUCER_EPOCH: _NOT_KNOWN,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "its coordinator has forgotten the transactional id; whether it was committed is not known",
}
ABORT_SAYS: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_TXN_STATE: "not aborted: it was committed before",
    ErrorCode.PRODUCER_FENCED: _NOT_OPEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: _NOT_OPEN,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "its coordinator has forgotten the transactional id; it is open no more",
}
"""What an error code means for the transaction; others tell nothing about it."""


def end(handle: TransactionHandle, coordinators: CoordinatorFinder, attempts: Attempts, *, commits: bool) -> Flow[None]:
    """Commit or abort, and ask again until it is answered.

    Returns at once for a transaction that nothing was written to: no coordinator knows of it. Raises BrokerError with what the code means,
    and TransactionOutcomeUnknownError when the time is over.
    """
    if not handle.partitions and not handle.groups:
        return
    tries, last = 0, ""
    try:
        while True:
            code, last = yield from _ask(handle, coordinators, commits=commits)
            if code is ErrorCode.NONE:
                return
            if not code.retriable or not attempts.may_go_on():
                said = (COMMIT_SAYS if commits else ABORT_SAYS).get(code, last)
                raise broker_error(code, ": ".join(filter(None, [_name(handle), said])))
            yield from attempts.pause(tries, refresh=False)
            tries += 1
    except TimeoutError as late:
        wanted = "committed" if commits else "aborted"
        text = f"{_name(handle)}: {late}; last: {last or 'no answer'}; whether it was {wanted} is not known; repeat the call to learn it"
        raise TransactionOutcomeUnknownError(text) from late


def _ask(handle: TransactionHandle, coordinators: CoordinatorFinder, *, commits: bool) -> Flow[tuple[ErrorCode, str]]:
    oldest = handle.end_version if handle.end_version >= FIRST_WITH_NEW_EPOCH else 0
    request = EndTxnRequest(
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        producer_epoch=handle.producer_epoch,
        committed=commits,
    )
    whom = Coordinator(CoordinatorKind.TRANSACTION, handle.transactional_id)
    try:
        reply: EndTxnResponse = yield Call(request, whom, min_version=oldest, max_version=handle.end_version)
    except ConnectError as error:
        coordinators.forget(whom.kind, whom.key)
        return ErrorCode.NETWORK_EXCEPTION, str(error)
    code = ErrorCode.of(reply.error_code)
    if code in FORGET_ON:
        coordinators.forget(whom.kind, whom.key)
    return code, code.name


def _name(handle: TransactionHandle) -> str:
    return f"transaction of {handle.transactional_id!r} (producer id {handle.producer_id}, epoch {handle.producer_epoch})"

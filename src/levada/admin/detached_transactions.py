"""Ends a transaction that its producer has detached (TransactionHandle). Another process can do this, with as many attempts as needed.

EndTxn is always sent with the producer id and epoch of the handle. InitProducerId is never sent: it would abort the open transaction, and
the outcome could not be learned any more. A retry is safe: if an earlier attempt has already ended the transaction in the same way, the
coordinator answers with success. The tables below have the other answers of Kafka 3.9 and 4.4. They hold under two conditions: each retry
uses the same version of EndTxn, which the handle has, and the caller does not use the transactional id again before the outcome is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import NamedTuple

from levada.acls import ResourceType
from levada.admin.per_key import Attempts
from levada.base.flow import Call, Flow, Wait
from levada.base.permissions import refused
from levada.client.requests.coordinator_finder import FORGET_ON, CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator
from levada.client.requests.fan_out import Spawn, raise_first
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConnectError, TimeoutError, TransactionOutcomeUnknownError, broker_error
from levada.logs import Log
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.types import TransactionHandle

FIRST_WITH_NEW_EPOCH = 5
"""The first version of EndTxn of the newer transaction protocol (KIP-890). All versions before it are equivalent here."""


class TransactionOutcome(Enum):
    """The outcome of a transaction that its producer has detached. It is right only if the transactional id was not used again since then.

    LOST: the transaction was aborted, but not by the call that returns LOST. It took longer than transaction.timeout.ms, or another client
    ended it. A commit will never succeed. UNKNOWN: there was no answer in time, or the coordinator has forgotten the transactional id.
    """

    COMMITTED = "committed"
    ABORTED = "aborted"
    LOST = "lost"
    UNKNOWN = "unknown"


class Meaning(NamedTuple):
    """The meaning of an error code for a transaction. outcome: right if the transactional id was not used again after the detach."""

    text: str
    outcome: TransactionOutcome


_NOT_OPEN = (
    "it is open no more: it took longer than transaction.timeout.ms and its coordinator aborted it, or a producer was initialized "
    "with this transactional id, which aborts what is open"
)
# Another call may have committed it before that, here or elsewhere.
_NOT_KNOWN = f"whether it was committed is not known: {_NOT_OPEN}; this call has not committed it, one before it may have"

_COMMIT_SAYS: Mapping[ErrorCode, Meaning] = {
    ErrorCode.INVALID_TXN_STATE: Meaning(f"not committed: it was aborted before, or {_NOT_OPEN}", TransactionOutcome.LOST),
    ErrorCode.PRODUCER_FENCED: Meaning(_NOT_KNOWN, TransactionOutcome.LOST),
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning(_NOT_KNOWN, TransactionOutcome.LOST),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Meaning(
        "its coordinator has forgotten the transactional id; whether it was committed is not known", TransactionOutcome.UNKNOWN
    ),
}
_ABORT_SAYS: Mapping[ErrorCode, Meaning] = {
    ErrorCode.INVALID_TXN_STATE: Meaning("not aborted: it was committed before", TransactionOutcome.COMMITTED),
    ErrorCode.PRODUCER_FENCED: Meaning(_NOT_OPEN, TransactionOutcome.LOST),
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning(_NOT_OPEN, TransactionOutcome.LOST),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Meaning(
        "its coordinator has forgotten the transactional id; it is open no more", TransactionOutcome.UNKNOWN
    ),
}
_SAID = {True: _COMMIT_SAYS, False: _ABORT_SAYS}
"""The meaning of error codes for the transaction, of a commit and of an abort; other codes say nothing about it."""

Reasons = dict[TransactionHandle, str]
"""The last reason for each transaction that has no outcome yet."""


def end(handle: TransactionHandle, coordinators: CoordinatorFinder, attempts: Attempts, *, commits: bool) -> Flow[None]:
    """Commit a detached transaction, or abort it if `commits` is false. Retry until the coordinator answers.

    Returns at once for a transaction without records, because no coordinator knows it. Raises a BrokerError whose text explains the error
    code, and TransactionOutcomeUnknownError if there is no answer in time.
    """
    reasons: Reasons = {}
    try:
        yield from _until_answered(handle, coordinators, attempts, reasons, commits=commits)
    except TimeoutError as late:
        last = reasons.get(handle, "no answer")
        wanted = "committed" if commits else "aborted"
        text = f"{_name(handle)}: {late}; last: {last}; whether it was {wanted} is not known; repeat the call to learn it"
        raise TransactionOutcomeUnknownError(text) from late


def end_all(
    handles: Collection[TransactionHandle],
    coordinators: CoordinatorFinder,
    attempts: Attempts,
    spawn: Spawn,
    log: Log,
    *,
    commits: bool,
    reached: Callable[[], bool],
) -> Flow[dict[TransactionHandle, TransactionOutcome]]:
    """Commit or abort several detached transactions at the same time, each like end(). Return the outcome of each transaction.

    reached: returns whether any broker has answered this client; if not, TimeoutError is raised at the time limit. An error from which
    no outcome follows, such as a missing permission, is raised after all transactions were tried. The error has the outcomes of the others.
    """
    reasons: Reasons = {}
    under_way = {handle: spawn.start(_outcome(handle, coordinators, attempts, reasons, commits=commits)) for handle in handles}
    try:
        # In any order: it takes as long as the slowest.
        for promise in under_way.values():
            yield Wait(promise)
    except TimeoutError:
        if not reached():
            raise
    finally:
        said = {handle: promise for handle, promise in under_way.items() if promise.done}
        for promise in under_way.values():
            spawn.cancel(promise)
    return _outcomes(handles, {handle: promise.result() for handle, promise in said.items()}, reasons, log)


def _outcomes(
    handles: Collection[TransactionHandle], said: Mapping[TransactionHandle, TransactionOutcome | BrokerError], reasons: Reasons, log: Log
) -> dict[TransactionHandle, TransactionOutcome]:
    errors = {handle: error for handle, error in said.items() if isinstance(error, BrokerError)}
    found = {handle: outcome for handle, outcome in said.items() if not isinstance(outcome, BrokerError)}
    outcomes = {handle: found.get(handle, TransactionOutcome.UNKNOWN) for handle in handles if handle not in errors}
    unknown = [handle for handle, outcome in outcomes.items() if outcome is TransactionOutcome.UNKNOWN]
    if unknown:
        text = "what became of %d of %d detached transactions is not known; the first: %s: %s"
        log.warning(text, len(unknown), len(handles), _name(unknown[0]), reasons.get(unknown[0], "no answer"))
    raise_first(_name, handles, errors, outcomes)
    return outcomes


def _outcome(
    handle: TransactionHandle, coordinators: CoordinatorFinder, attempts: Attempts, reasons: Reasons, *, commits: bool
) -> Flow[TransactionOutcome | BrokerError]:
    """End one of several transactions. Return its outcome, or an error from which no outcome follows and for which no retry would help.

    commits, reasons: see _until_answered().
    """
    try:
        yield from _until_answered(handle, coordinators, attempts, reasons, commits=commits)
    except BrokerError as error:
        meaning = _SAID[commits].get(error.code)
        if meaning is None and not error.retriable:
            return error
        reasons[handle] = str(error)
        return TransactionOutcome.UNKNOWN if meaning is None else meaning.outcome
    return TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED


def _until_answered(
    handle: TransactionHandle, coordinators: CoordinatorFinder, attempts: Attempts, reasons: Reasons, *, commits: bool
) -> Flow[None]:
    """Send EndTxn until the coordinator answers. Raise a BrokerError whose text explains the error code of the answer.

    commits: whether to commit or to abort. reasons: gets the reason of the latest attempt under `handle`; it explains an error when the
    time is over.
    """
    if not handle.partitions and not handle.groups:
        return
    tries = 0
    while True:
        code, reasons[handle] = yield from _ask(handle, coordinators, commits=commits)
        if code is ErrorCode.NONE:
            return
        if not code.retriable or not attempts.may_go_on(handle):
            meaning = _SAID[commits].get(code)
            if meaning is not None:
                raise broker_error(code, f"{_name(handle)}: {meaning.text}")
            raise refused(EndTxnRequest.NAME, code, _name(handle), {ResourceType.TRANSACTIONAL_ID: handle.transactional_id})
        yield from attempts.pause(tries, refresh=False)
        tries += 1


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

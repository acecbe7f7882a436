"""Transactions: describes them and their producers, and ends hanging and detached transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levada.admin import detached_transactions as detached
from levada.admin import transactions
from levada.admin.detached_transactions import TransactionOutcome
from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing, TransactionState
from levada.api import arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation
from levada.types import AbortTransactionSpec, PartitionInfo, TopicPartition, TransactionHandle


def describe_transactions(
    admin: AdminCore, /, transactional_ids: Sequence[str], *, timeout: float | None = None
) -> Operation[dict[str, TransactionDescription]]:
    """Describe transactional ids, by id.

    Raises BrokerError (TRANSACTIONAL_ID_NOT_FOUND) for an id that its coordinator does not know, UnsupportedVersionError on brokers before
    3.0.
    """
    wanted = arguments.ids(transactional_ids, "transactional ids")
    flow = transactions.describe_transactions(wanted, admin.attempts(), admin.coordinators, admin.spawn)
    return admin.operation(flow, "describe transactions", timeout)


def list_transactions(
    admin: AdminCore,
    /,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
    timeout: float | None = None,
) -> Operation[list[TransactionListing]]:
    """Return the transactional ids of all brokers that match all filters, sorted by id.

    states: names such as "Ongoing"; empty for all. producer_ids: empty for all. duration_ms: only transactions that have been open for
    longer (Kafka since 3.8). pattern: a regular expression of Google's RE2 that the whole transactional id must match (Kafka since 4.1).
    Raises UnsupportedVersionError on brokers before 3.0, and if brokers do not support a filter.
    """
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"a pattern is a regular expression as text, got {pattern!r}")
    flow = transactions.list_transactions(
        admin.attempts(),
        admin.spawn,
        states=arguments.named(TransactionState, states, "state of a transaction"),
        producer_ids=[arguments.whole("producer_ids", producer_id) for producer_id in producer_ids],
        duration_ms=None if duration_ms is None else arguments.whole("duration_ms", duration_ms),
        pattern=pattern,
    )
    return admin.operation(flow, "list transactions", timeout)


def describe_producers(
    admin: AdminCore, /, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, tuple[ProducerState, ...]]]:
    """Return the producers that the leader of each partition remembers, with their open transactions, by partition.

    Raises UnknownTopicOrPartitionError, UnsupportedVersionError on brokers before 2.8.
    """
    flow = transactions.describe_producers(arguments.topic_partitions(partitions), admin.attempts(), admin.spawn)
    return admin.operation(flow, "describe producers", timeout)


def fence_producers(
    admin: AdminCore, /, transactional_ids: Sequence[str], *, timeout: float | None = None
) -> Operation[dict[str, FencedProducer]]:
    """Give each transactional id a new epoch: its current producers are fenced, and their open transactions aborted. Return the new epochs.

    Raises TransactionalIdAuthorizationError and others.
    """
    wanted = arguments.ids(transactional_ids, "transactional ids")
    limit_ms = admin.request_timeout_ms
    flow = transactions.fence_producers(wanted, admin.attempts(), admin.coordinators, admin.spawn, timeout_ms=limit_ms)
    return admin.operation(flow, "fence producers", timeout)


def abort_transaction(admin: AdminCore, /, spec: AbortTransactionSpec, *, timeout: float | None = None) -> Operation[None]:
    """Abort a transaction that hangs in one partition, whatever the coordinator knows about it. describe_producers() returns the numbers
    for `spec`.

    To end a transaction that its coordinator knows, use fence_producers(). Raises BrokerError (INVALID_PRODUCER_EPOCH,
    TRANSACTION_COORDINATOR_FENCED) for epochs older than the partition's, and UnknownTopicOrPartitionError.
    """
    flow = transactions.abort_transaction(arguments.abort_spec(spec), admin.attempts(), admin.spawn)
    return admin.operation(flow, "abort transaction", timeout)


def commit_detached(admin: AdminCore, /, handle: TransactionHandle, *, timeout: float | None = None) -> Operation[None]:
    """Commit a transaction that its producer has left open with detach_transaction(), in this process or another one.

    The call retries until the coordinator answers. It may be repeated, also after a success, as long as no other producer is created with
    this transactional id; so create none before the outcome is known. Records become visible a few milliseconds after the answer.

    Raises BrokerError (INVALID_TXN_STATE) if the transaction was not committed, because it was aborted before: by abort_detached(), by a
    new producer with the id, or by the coordinator after transaction.timeout.ms. Raises ProducerFencedError or BrokerError
    (INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING) if this call has not committed it, and the coordinator does not know any more
    whether an earlier call has; TransactionOutcomeUnknownError when the time is over.

    A success does not exclude that an administrator aborted the transaction by force before, or that a topic was deleted meanwhile.
    """
    return _end_detached(admin, handle, timeout, commits=True)


def abort_detached(admin: AdminCore, /, handle: TransactionHandle, *, timeout: float | None = None) -> Operation[None]:
    """Abort a transaction that its producer has left open with detach_transaction(). Retries, repeated calls and other errors are as in
    commit_detached().

    Raises BrokerError (INVALID_TXN_STATE) if the transaction was committed before; ProducerFencedError or BrokerError
    (INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING) if it is not open any more.
    """
    return _end_detached(admin, handle, timeout, commits=False)


def end_transactions(
    admin: AdminCore, /, handles: Iterable[TransactionHandle], *, commit: bool, timeout: float | None = None
) -> Operation[dict[TransactionHandle, TransactionOutcome]]:
    """Commit or abort many detached transactions at the same time, and return the outcome of each.

    Each is ended as by commit_detached() or abort_detached(), and the call may be repeated like those. Where they raise an error that says
    how the transaction ended, this call returns the outcome, which is right if no transactional id was used again before: LOST for one that
    was aborted, but not by this call; COMMITTED for one that was to be aborted and was committed before; UNKNOWN if there was no answer in
    time, or its transactional id was forgotten. For UNKNOWN, a warning in the log says why.

    An error that says nothing about a transaction, such as a missing permission, is raised as BrokerError after all others have ended; its
    `results` has them. Raises BootstrapError if no broker was ever reached.
    """
    if not isinstance(commit, bool):
        raise TypeError(f"commit is True or False, got {commit!r}")
    flow = detached.end_all(
        arguments.transaction_handles(handles),
        admin.coordinators,
        admin.attempts(),
        admin.spawn,
        admin.log,
        commits=commit,
        reached=admin.has_reached_brokers,
    )
    return admin.operation(flow, f"{'commit' if commit else 'abort'} of detached transactions", timeout)


def _end_detached(admin: AdminCore, handle: TransactionHandle, timeout: float | None, *, commits: bool) -> Operation[None]:
    flow = detached.end(arguments.transaction_handle(handle), admin.coordinators, admin.attempts(), commits=commits)
    return admin.operation(flow, f"{'commit' if commits else 'abort'} of a detached transaction", timeout)

"""levada transactions: list, describe and abort transactions, and find hanging ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from levada import (
    AbortTransactionSpec,
    KafkaAdmin,
    KafkaError,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from levada.base.clock import SystemClock
from levada.cli.arguments import Yes, not_empty, partitions_of, word
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.hanging import OpenTransaction, hanging, opened_before
from levada.cli.invocation import Invocation, confirm
from levada.cli.ledgers import sinks_of_slots
from levada.cli.outcomes import rows_of, show_outcomes
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

app = command_group("Transactions: list, describe, find hanging ones, abort.")

_DEFAULT_AGE_MINUTES = 15
"""The brokers' default transaction.max.timeout.ms. Coordinators abort transactions that are open for longer."""


class TransactionRow(NamedTuple):
    """A transactional id. open_for_s: seconds since its open transaction began, or None. partitions: of the open transaction."""

    transactional_id: str
    coordinator: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    open_for_s: float | None
    partitions: tuple[TopicPartition, ...]


@command(app, "list")
def list_(
    invocation: Invocation,
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only ids in this state, such as Ongoing; repeat it for more.")
    ] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", help="Only ids with this producer id.")] = None,
    open_for_ms: Annotated[
        int | None, typer.Option("--open-for-ms", help="Only transactions open for longer than this (Kafka 3.8).")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="Only ids that match this regular expression completely (Kafka 4.1).")
    ] = None,
) -> None:
    """List transactional ids."""
    only = [word(TransactionState, one) for one in states or ()]
    with invocation.admin() as admin:
        found = admin.list_transactions(states=only, producer_ids=producer_ids or (), duration_ms=open_for_ms, pattern=pattern)
    invocation.show(found, TransactionListing._fields)


@command(app)
def describe(
    invocation: Invocation, ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Transactional ids.", show_default=False)]
) -> None:
    """Show transactional ids, and the partitions of their open transactions."""
    names = not_empty(ids, "ID")
    with invocation.admin() as admin:
        found = admin.describe_transactions(names)
    now_ms = _now_ms()
    invocation.show([_row(name, one, now_ms) for name, one in found.items()], TransactionRow._fields)


@command(app, "find-hanging")
def find_hanging(
    invocation: Invocation,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only in this topic; repeat it for more. Default: all topics.")
    ] = None,
    older_than_minutes: Annotated[
        int,
        typer.Option(
            "--older-than-minutes",
            help="Only transactions without a record for longer than this. Use the brokers' transaction.max.timeout.ms.",
        ),
    ] = _DEFAULT_AGE_MINUTES,
) -> None:
    """Find open transactions that no coordinator will end (KIP-664). Consumers with isolation.level=read_committed wait for them."""
    with invocation.admin() as admin:
        names = topics or admin.list_topics(internal=True)
        limit_ms = _now_ms() - older_than_minutes * 60_000
        invocation.show(_hanging(admin, names, limit_ms), OpenTransaction._fields)


@command(app)
def abort(
    invocation: Invocation,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="Transactional ids. Their producers are fenced.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Instead of ids: topic of a hanging transaction, from find-hanging.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Its partition.")] = None,
    start_offset: Annotated[int | None, typer.Option("--start-offset", help="Offset of its first record.")] = None,
    yes: Yes = False,
) -> Exit:
    """Abort the open transactions of transactional ids, or a hanging transaction in a partition.

    Those of an exactly-once Spark sink are refused: use levada spark transactions.
    """
    place = (topic, partition, start_offset)
    if ids and place == (None, None, None):
        with invocation.admin() as admin:
            _refuse_slots(admin, ids)
            confirm(f"Abort the open transactions of {', '.join(ids)}, and fence their producers?", yes=yes)
            outcomes = _fenced(admin, ids)
        return show_outcomes(invocation, rows_of(outcomes, str))
    if not ids and topic is not None and partition is not None and start_offset is not None:
        with invocation.admin() as admin:
            found = _at(admin, TopicPartition(topic, partition), start_offset)
            confirm(f"Abort the transaction of producer {found.producer_id} in {found.tp}?", yes=yes)
            admin.abort_transaction(AbortTransactionSpec(found.tp, found.producer_id, found.producer_epoch, found.coordinator_epoch))
        return show_outcomes(invocation, rows_of({found.tp: None}, f"aborted the transaction of producer {found.producer_id}"))
    raise typer.BadParameter("give transactional ids, or --topic, --partition and --start-offset")


def _refuse_slots(admin: KafkaAdmin, ids: Sequence[str]) -> None:
    """Raise CommandError if one of the transactions may belong to a decided batch of a Spark sink, whose rows would be lost."""
    for name, sink in sinks_of_slots(admin, ids).items():
        raise CommandError(
            f"nothing was done: the exactly-once Spark sink {sink} has opened {name}, and rows are lost if their batch is decided. "
            f"`levada spark transactions recover {sink}` commits what is decided, and `levada spark transactions abort {sink}` also "
            "aborts the rest"
        )


def _fenced(admin: KafkaAdmin, ids: Sequence[str]) -> dict[str, str | KafkaError]:
    """Fence the producers of transactional ids, and return what was done, or the error, by id.

    An id that no coordinator knows gets an error, because fencing would create it.
    """
    described = admin.outcomes(admin.describe_transactions, ids)
    unknown = {name: found for name, found in described.items() if isinstance(found, KafkaError) and _is_unknown(found)}
    known = [name for name in ids if name not in unknown]
    fenced = admin.outcomes(admin.fence_producers, known) if known else {}
    done = {name: found if isinstance(found, KafkaError) else _done(described[name]) for name, found in fenced.items()}
    return {**done, **unknown}


def _done(before: TransactionDescription | KafkaError) -> str:
    """Return what fencing has done to a transactional id. before: its description, or why there is none."""
    was_open = isinstance(before, KafkaError) or before.state is TransactionState.ONGOING
    return "aborted; its producers are fenced" if was_open else "no transaction was open; its producers are fenced"


def _hanging(admin: KafkaAdmin, topics: Sequence[str], limit_ms: int) -> list[OpenTransaction]:
    partitions = partitions_of(admin.describe_topics(topics).values())
    opened = opened_before(limit_ms, admin.describe_producers(partitions))
    if not opened:
        return []
    ids = {one.producer_id: one.transactional_id for one in admin.list_transactions(producer_ids=[one.producer_id for one in opened])}
    outcomes = admin.outcomes(admin.describe_transactions, list(ids.values())) if ids else {}
    described = {name: _known(found) for name, found in outcomes.items()}
    return hanging(opened, ids, {name: found for name, found in described.items() if found is not None})


def _now_ms() -> int:
    return SystemClock().wall_ms()


def _known(found: TransactionDescription | KafkaError) -> TransactionDescription | None:
    """Return a coordinator's description, or None if it does not know the id. Raises any other error."""
    if _is_unknown(found):
        return None
    if isinstance(found, KafkaError):
        raise found
    return found


def _is_unknown(found: TransactionDescription | KafkaError | None) -> bool:
    return isinstance(found, BrokerError) and found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def _at(admin: KafkaAdmin, tp: TopicPartition, start_offset: int) -> OpenTransaction:
    opened = opened_before(math.inf, admin.describe_producers([tp]))
    for one in opened:
        if one.start_offset == start_offset:
            running = admin.list_transactions(states=[TransactionState.ONGOING], producer_ids=[one.producer_id])
            _refuse_slots(admin, [known.transactional_id for known in running])
            return one
    known = ", ".join(str(one.start_offset) for one in opened) or "none"
    raise CommandError(f"no transaction is open in {tp} from offset {start_offset}; open ones begin at: {known}")


def _row(name: str, found: TransactionDescription, now_ms: int) -> TransactionRow:
    is_open = found.state is TransactionState.ONGOING and found.start_time_ms is not None
    open_for_s = (now_ms - found.start_time_ms) / 1000 if is_open and found.start_time_ms is not None else None
    return TransactionRow(
        name, found.coordinator_id, found.state, found.producer_id, found.producer_epoch, found.timeout_ms, open_for_s, found.partitions
    )

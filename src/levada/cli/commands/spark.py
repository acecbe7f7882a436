"""levada spark transactions: list the open transactions of exactly-once Spark sinks, and end them if a driver is gone (adr/0061)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from levada import KafkaAdmin, KafkaError, TransactionDescription
from levada.base.clock import SystemClock
from levada.cli.arguments import Yes
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import OutcomeRow, show_outcomes
from levada.cli.text import counted, named
from levada.errors import CorruptRecordError, TimeoutError
from levada.exactly_once.batch import DEFAULT_PREFIX, parsed, sink_of_group
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots

app = command_group("Exactly-once Spark sinks: list, commit or abort their open transactions.")
transactions = command_group("Transactions of exactly-once Spark sinks.")
app.add_typer(transactions, name="transactions")

SETTLED_S = 1.0
"""Time in seconds after which the offset of a just committed transaction can be read."""
Prefix = Annotated[str, typer.Option("--prefix", help="The sinks' transactionalIdPrefix.")]
SinkName = Annotated[
    str,
    typer.Argument(
        metavar="SINK", help="Id of the sink's query, its exactlyOnce.id, or its name in the output of list.", show_default=False
    ),
]


class Sink(NamedTuple):
    """The state of a sink. entry: last entry of its ledger, None without a ledger, or the error of reading it.

    opened: the open transactions by transactional id.
    """

    entry: Entry | KafkaError | None
    opened: Mapping[str, TransactionDescription]


class SinkRow(NamedTuple):
    """A sink.

    batch: the last batch that was decided, or None. rows: number of rows of that batch, including those in slots. slots: number of its
    transactions of tasks. decided: number of these that are still open and have to be committed. undecided: number of other open
    transactions, of the batch that is being written, or of drivers and tasks that died. open_for_s: seconds since the oldest open
    transaction began, or None. error: why the ledger cannot be read, or None.
    """

    sink: str
    query: str
    batch: int | None
    rows: int
    slots: int
    decided: int
    undecided: int
    open_for_s: float | None
    error: str | None = None


@command(transactions, "list")
def list_(invocation: Invocation, prefix: Prefix = DEFAULT_PREFIX) -> None:
    """List sinks: the last batch and the open transactions of each."""
    with invocation.admin() as admin:
        sinks = _sinks(admin, prefix)
        now_ms = SystemClock().wall_ms()
    invocation.show([_row(name, sink, now_ms) for name, sink in sinks.items()], SinkRow._fields)


@command(transactions)
def recover(invocation: Invocation, sink: SinkName, prefix: Prefix = DEFAULT_PREFIX) -> Exit:
    """Commit the rest of the last batch, if its driver decided to commit it but died before all its transactions were committed.

    Safe at any time. The query does the same when it is started again.
    """
    with invocation.admin() as admin:
        sink = _found(admin, sink, prefix)
        slots = Slots(admin, sink)
        try:
            entry = slots.last_entry()
        except TimeoutError as late:
            raise CommandError(
                f"{late}. The last driver of {sink} left a transaction open before it decided a batch: start the query again, or abort the "
                f"transaction with levada spark transactions abort {sink}"
            ) from late
        if entry is None:
            raise CommandError(
                f"{sink} has not decided a batch yet; abort its open transactions with levada spark transactions abort {sink}"
            )
        finished = _finished(slots, entry)
        named = {slot.handle.transactional_id for slot in entry.unfinished}
        left = len(_opened(admin, sink).get(sink, {}).keys() - named)
        rest = f"; {counted(left, 'transaction')} of undecided batches still open: start the query again, or abort" if left else ""
        return show_outcomes(invocation, [OutcomeRow(sink, finished + rest)])


@command(transactions)
def abort(invocation: Invocation, sink: SinkName, prefix: Prefix = DEFAULT_PREFIX, yes: Yes = False) -> Exit:
    """Abort a sink's open transactions, so that read_committed consumers can continue. Those of a decided batch are committed instead.

    Stop the query first: it must not be running.
    """
    with invocation.admin() as admin:
        sink = _found(admin, sink, prefix)
        confirm(f"Abort the open transactions of {sink}? Its query must not be running.", yes=yes)
        slots = Slots(admin, sink)
        # List before fencing: transactions that are opened later belong to a query that was started meanwhile.
        opened = _opened(admin, sink).get(sink, {})
        # Then fence the driver, so that it can decide no further batch.
        admin.fence_producers([sink])
        entry = _settled_entry(slots, waits=len(opened.keys() - {sink}) > 0)
        finished = _finished(slots, entry) if entry is not None else "no batch was decided"
        decided = {slot.handle.transactional_id for slot in entry.unfinished} if entry is not None else set()
        left = [name for name in opened if name not in decided and name != sink]
        if left:
            admin.fence_producers(left)
        return show_outcomes(invocation, [OutcomeRow(sink, f"{counted(len(left), 'transaction')} of tasks aborted; {finished}")])


def _settled_entry(slots: Slots, *, waits: bool) -> Entry | None:
    """Return the last ledger entry of a sink whose driver was fenced.

    waits: if there is no entry, look again a moment later, because a first entry that was just committed cannot be read at once.
    """
    entry = slots.last_entry()
    if entry is None and waits:
        time.sleep(SETTLED_S)
        entry = slots.last_entry()
    return entry


def _finished(slots: Slots, entry: Entry) -> str:
    if left := slots.finish(entry).all:
        raise CommandError(
            f"batch {entry.batch.number}: {len(left)} of {counted(len(entry.slots), 'transaction')} of tasks was aborted before it was "
            f"committed; start the {entry.batch.program} again: it writes these rows again if its tasks get the same rows"
        )
    return f"batch {entry.batch.number} is committed, with {counted(len(entry.slots), 'transaction')} of tasks"


def _found(admin: KafkaAdmin, given: str, prefix: str) -> str:
    """Return the name of the sink that the argument names. Raises CommandError if no sink or several sinks match."""
    if given in _sinks(admin, given):
        return given
    known = _sinks(admin, prefix)
    found = [name for name, sink in known.items() if name == prefix + given or _query_of(sink) == given]
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"{given!r} means {counted(len(found), 'sink')}: {named(found)}; give the name of one of them")
    there = f"there are {named(list(known))}" if known else "there is none"
    raise CommandError(f"no sink is called {given!r}, and no query of a sink has this id; with --prefix {prefix} {there}")


def _query_of(sink: Sink) -> str | None:
    """Return the id of the query that wrote a sink's last batch; None if unknown, or if a batch job wrote it."""
    return sink.entry.batch.query_id or None if isinstance(sink.entry, Entry) else None


def _sinks(admin: KafkaAdmin, prefix: str) -> dict[str, Sink]:
    """Return the sinks whose names begin with the prefix and that have a ledger or open transactions."""
    opened = _opened(admin, prefix)
    groups = {
        group.group_id
        for group in admin.list_groups()
        if group.group_id.startswith(prefix) and sink_of_group(group.group_id) == group.group_id
    }
    found = {name: Sink(_entry_of(admin, name), opened.get(name, {})) for name in sorted(groups | opened.keys())}
    return {name: sink for name, sink in found.items() if sink.entry is not None or sink.opened}


def _opened(admin: KafkaAdmin, prefix: str) -> dict[str, dict[str, TransactionDescription]]:
    """Return the open transactions of sinks whose names begin with the prefix: by sink, then by transactional id."""
    listed = [found.transactional_id for found in admin.list_transactions(states=["Ongoing"])]
    mine = [name for name in listed if name.startswith(prefix)]
    found: dict[str, dict[str, TransactionDescription]] = defaultdict(dict)
    for name, described in (admin.describe_transactions(mine) if mine else {}).items():
        slot = parsed(name)
        found[slot[0] if slot is not None else name][name] = described
    return found


def _entry_of(admin: KafkaAdmin, sink: str) -> Entry | KafkaError | None:
    """Return the last entry of a sink's ledger, None if no sink wrote this group's offsets, or the error of reading it."""
    try:
        return Slots(admin, sink).last_entry(stable=False)
    except CorruptRecordError:
        return None
    except KafkaError as error:
        return error


def _row(name: str, sink: Sink, now_ms: int) -> SinkRow:
    entry = sink.entry if isinstance(sink.entry, Entry) else None
    named = {slot.handle.transactional_id for slot in entry.unfinished} if entry is not None else set()
    began = [found.start_time_ms for found in sink.opened.values() if found.start_time_ms is not None]
    return SinkRow(
        name,
        entry.batch.query_id if entry is not None else "",
        entry.batch.number if entry is not None else None,
        entry.rows.count if entry is not None else 0,
        len(entry.slots) if entry is not None else 0,
        len(sink.opened.keys() & named),
        len(sink.opened.keys() - named),
        (now_ms - min(began)) / 1000 if began else None,
        str(sink.entry) if isinstance(sink.entry, KafkaError) else None,
    )

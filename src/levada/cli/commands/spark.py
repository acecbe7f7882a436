"""levada spark transactions: what Spark's exactly-once sinks have open, and how it is ended where a driver is gone (adr/0061)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from levada import KafkaAdmin, KafkaError, TransactionDescription
from levada.base.clock import SystemClock
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import OutcomeRow, show_outcomes
from levada.cli.text import counted, named
from levada.errors import CorruptRecordError, TimeoutError
from levada.exactly_once.batch import parsed, sink_of_group
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots

app = command_group("Spark's sinks that write exactly once: what they have open; commit or abort it.")
transactions = command_group("Transactions of Spark's sinks that write exactly once.")
app.add_typer(transactions, name="transactions")

DEFAULT_PREFIX = "levada-"
SETTLED_S = 1.0
"""After how long the offset of a transaction that was committed just now can be read."""
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Prefix = Annotated[str, typer.Option("--prefix", help="What the sinks' transactionalIdPrefix is.")]
SinkName = Annotated[
    str, typer.Argument(metavar="SINK", help="The id of its query, its exactlyOnce.id, or its name as list shows it.", show_default=False)
]


class Sink(NamedTuple):
    """What is known of a sink. entry: its last batch, None without a ledger, an error if it cannot be read. opened: by transactional id."""

    entry: Entry | KafkaError | None
    opened: Mapping[str, TransactionDescription]


class SinkRow(NamedTuple):
    """A sink.

    batch: the last one that was decided, None where the ledger has none. rows: of that batch, those in slots included. slots: how many
    transactions of tasks it has. decided: those of them that are still open, and are to be committed. undecided: what else is open, of
    the batch that is being written, or of drivers and tasks that died. open_for_s: seconds since the oldest of these began, None where
    none is open. error: why the ledger cannot be read, None where it can.
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
    """List sinks: which batch each has written last, and what it has open."""
    with invocation.admin() as admin:
        sinks = _sinks(admin, prefix)
        now_ms = SystemClock().wall_ms()
    invocation.show([_row(name, sink, now_ms) for name, sink in sinks.items()], SinkRow._fields)


@command(transactions)
def recover(invocation: Invocation, sink: SinkName, prefix: Prefix = DEFAULT_PREFIX) -> Exit:
    """Commit the rest of the last batch that a driver decided to commit, if the driver died before all its transactions were committed.

    Safe at any time. The query does the same itself when it is started again.
    """
    with invocation.admin() as admin:
        sink = _found(admin, sink, prefix)
        slots = Slots(admin, sink)
        try:
            entry = slots.last_entry()
        except TimeoutError as late:
            raise CommandError(
                f"{late}. The last driver of {sink} has left a transaction open that has decided nothing: start the query again, or abort "
                f"it by levada spark transactions abort {sink}"
            ) from late
        if entry is None:
            raise CommandError(f"{sink} has decided no batch so far; levada spark transactions abort {sink} ends what it has open")
        finished = _finished(slots, entry)
        named = {slot.handle.transactional_id for slot in entry.unfinished}
        left = len(_opened(admin, sink).get(sink, {}).keys() - named)
        rest = f"; {counted(left, 'transaction')} of no decided batch left open: start the query again, or abort" if left else ""
        return show_outcomes(invocation, [OutcomeRow(sink, finished + rest)])


@command(transactions)
def abort(invocation: Invocation, sink: SinkName, prefix: Prefix = DEFAULT_PREFIX, yes: Yes = False) -> Exit:
    """Abort a sink's open transactions, so that read_committed consumers can continue. Commit those of a batch that is already decided.

    The query must not be running: stop it first.
    """
    with invocation.admin() as admin:
        sink = _found(admin, sink, prefix)
        confirm(f"Abort what {sink} has open? Its query must not be running.", yes=yes)
        slots = Slots(admin, sink)
        # Listed first: what is opened from now on is of a query that was started meanwhile.
        opened = _opened(admin, sink).get(sink, {})
        # Then the driver: what it has not decided by then it cannot decide any more.
        admin.fence_producers([sink])
        entry = _settled_entry(slots, waits=len(opened.keys() - {sink}) > 0)
        finished = _finished(slots, entry) if entry is not None else "no batch was decided"
        decided = {slot.handle.transactional_id for slot in entry.unfinished} if entry is not None else set()
        left = [name for name in opened if name not in decided and name != sink]
        if left:
            admin.fence_producers(left)
        return show_outcomes(invocation, [OutcomeRow(sink, f"{counted(len(left), 'transaction')} of tasks aborted; {finished}")])


def _settled_entry(slots: Slots, *, waits: bool) -> Entry | None:
    """Read the ledger of a sink whose driver was fenced. waits: a first entry that was committed just now is seen a moment later."""
    entry = slots.last_entry()
    if entry is None and waits:
        time.sleep(SETTLED_S)
        entry = slots.last_entry()
    return entry


def _finished(slots: Slots, entry: Entry) -> str:
    if left := slots.finish(entry).all:
        raise CommandError(
            f"batch {entry.batch.number}: {len(left)} of {counted(len(entry.slots), 'transaction')} of tasks was aborted before it was "
            f"committed; start the {entry.batch.program} again, which writes these rows again if its tasks have the same ones"
        )
    return f"batch {entry.batch.number} is committed, with {counted(len(entry.slots), 'transaction')} of tasks"


def _found(admin: KafkaAdmin, given: str, prefix: str) -> str:
    """Return the name of the sink that is meant. Raises CommandError where none is, or more than one."""
    if given in _sinks(admin, given):
        return given
    known = _sinks(admin, prefix)
    found = [name for name, sink in known.items() if name == prefix + given or _query_of(sink) == given]
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"{given!r} means {counted(len(found), 'sink')}: {named(found)}; give the name of one")
    there = f"there are {named(list(known))}" if known else "there is none"
    raise CommandError(f"no sink is called {given!r}, and no query of a sink has this id; with --prefix {prefix} {there}")


def _query_of(sink: Sink) -> str | None:
    """Return the id of the query that has written a sink's last batch; None where that is not known, and of batch jobs."""
    return sink.entry.batch.query_id or None if isinstance(sink.entry, Entry) else None


def _sinks(admin: KafkaAdmin, prefix: str) -> dict[str, Sink]:
    """Return the sinks whose names begin so and that have a ledger, or something open."""
    opened = _opened(admin, prefix)
    groups = {
        group.group_id
        for group in admin.list_groups()
        if group.group_id.startswith(prefix) and sink_of_group(group.group_id) == group.group_id
    }
    found = {name: Sink(_entry_of(admin, name), opened.get(name, {})) for name in sorted(groups | opened.keys())}
    return {name: sink for name, sink in found.items() if sink.entry is not None or sink.opened}


def _opened(admin: KafkaAdmin, prefix: str) -> dict[str, dict[str, TransactionDescription]]:
    """Return the open transactions of sinks whose names begin so: by sink, by transactional id."""
    listed = [found.transactional_id for found in admin.list_transactions(states=["Ongoing"])]
    mine = [name for name in listed if name.startswith(prefix)]
    found: dict[str, dict[str, TransactionDescription]] = defaultdict(dict)
    for name, described in (admin.describe_transactions(mine) if mine else {}).items():
        slot = parsed(name)
        found[slot[0] if slot is not None else name][name] = described
    return found


def _entry_of(admin: KafkaAdmin, sink: str) -> Entry | KafkaError | None:
    """Return what the ledger of a sink says so far; None for a group that no sink has written, an error for one that cannot be read."""
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

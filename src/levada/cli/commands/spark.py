"""levada spark transactions: what Spark's exactly-once sinks have open, and how it is ended where a driver is gone (adr/0061)."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Annotated, NamedTuple

import typer

from levada import KafkaAdmin, KafkaError, TransactionDescription
from levada.cli.command import command, command_group
from levada.cli.confirm import confirm
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation
from levada.cli.outcomes import OutcomeRow, show_outcomes
from levada.cli.text import counted
from levada.clock import SystemClock
from levada.errors import CorruptRecordError, TimeoutError
from levada.exactly_once.batch import parsed
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots

app = command_group("Spark's sinks that write exactly once: what they have open; commit or abort it.")
transactions = command_group("Transactions of Spark's sinks that write exactly once.")
app.add_typer(transactions, name="transactions")

DEFAULT_PREFIX = "levada-"
SETTLED_S = 1.0
"""After how long the offset of a transaction that was committed just now can be read."""
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
SinkName = Annotated[
    str, typer.Argument(metavar="SINK", help="Its name, as list shows it: transactionalIdPrefix, and exactlyOnce.id or the query's id.")
]


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
def list_(
    invocation: Invocation,
    prefix: Annotated[str, typer.Option("--prefix", help="What the sinks' transactionalIdPrefix is.")] = DEFAULT_PREFIX,
) -> None:
    """List sinks: which batch each has written last, and what it has open."""
    with invocation.admin() as admin:
        opened = _opened(admin, prefix)
        groups = {group.group_id for group in admin.list_groups() if group.group_id.startswith(prefix) and "~" not in group.group_id}
        entries = {sink: _entry_of(admin, sink) for sink in sorted(groups | opened.keys())}
        now_ms = SystemClock().wall_ms()
        rows = [_row(sink, entry, opened[sink], now_ms) for sink, entry in entries.items() if entry is not None or opened[sink]]
    invocation.show(rows, SinkRow._fields)


@command(transactions)
def recover(invocation: Invocation, sink: SinkName) -> Exit:
    """Commit what a driver has decided and died before it was committed.

    Harmless at any time; the query does it itself when it is started again.
    """
    with invocation.admin() as admin:
        slots = Slots(admin, sink)
        try:
            entry = slots.last_entry()
        except TimeoutError as late:
            raise CommandError(
                f"{late}. The last driver of {sink} has left a transaction open that has decided nothing: start the query again, or abort "
                f"it by levada spark transactions abort {sink}"
            ) from late
        if entry is None:
            raise _unknown(sink)
        finished = _finished(slots, entry)
        named = {slot.handle.transactional_id for slot in entry.slots}
        left = len(_opened(admin, sink).get(sink, {}).keys() - named)
        rest = f"; {counted(left, 'transaction')} of no decided batch left open: start the query again, or abort" if left else ""
        return show_outcomes(invocation, [OutcomeRow(sink, finished + rest)])


@command(transactions)
def abort(invocation: Invocation, sink: SinkName, yes: Yes = False) -> Exit:
    """Abort what a sink has open and has not decided, so that readers of committed records can go on; commit what it has decided.

    For a sink whose query is not running: stop it first.
    """
    confirm(f"Abort what {sink} has open? Its query must not be running.", yes=yes)
    with invocation.admin() as admin:
        slots = Slots(admin, sink)
        # Listed first: what is opened from now on is of a query that was started meanwhile.
        opened = _opened(admin, sink).get(sink, {})
        if not opened and slots.last_entry(stable=False) is None:
            raise _unknown(sink)
        # Then the driver: what it has not decided by then it cannot decide any more.
        admin.fence_producers([sink])
        entry = _settled_entry(slots, waits=len(opened.keys() - {sink}) > 0)
        finished = _finished(slots, entry) if entry is not None else "no batch was decided"
        decided = {slot.handle.transactional_id for slot in entry.slots} if entry is not None else set()
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


def _unknown(sink: str) -> CommandError:
    return CommandError(f"no sink is called {sink!r}: it has no ledger and nothing open; levada spark transactions list has their names")


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


def _row(sink: str, found: Entry | KafkaError | None, opened: dict[str, TransactionDescription], now_ms: int) -> SinkRow:
    entry = found if isinstance(found, Entry) else None
    named = {slot.handle.transactional_id for slot in entry.slots} if entry is not None else set()
    began = [found.start_time_ms for found in opened.values() if found.start_time_ms is not None]
    return SinkRow(
        sink,
        entry.batch.query_id if entry is not None else "",
        entry.batch.number if entry is not None else None,
        entry.rows.count if entry is not None else 0,
        len(named),
        len(opened.keys() & named),
        len(opened.keys() - named),
        (now_ms - min(began)) / 1000 if began else None,
        str(found) if isinstance(found, KafkaError) else None,
    )

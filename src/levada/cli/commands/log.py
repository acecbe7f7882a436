"""levada log: prints the record batches of a log, from a segment's file or from the leader of a partition."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from levada.cli.arguments import one_partition
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation
from levada.cli.log_dump import Dumped, RecordRow, Torn, dump, dump_held
from levada.cli.positions import offsets_between, parse_positions
from levada.cli.text import counted
from levada.errors import BrokerError, UnknownTopicOrPartitionError

app = command_group("Print the record batches of a log.")

Records = Annotated[bool, typer.Option("--records", help="Show records instead of batches; records of coordinators' topics are decoded.")]
_SHOWN = (
    "position",
    "base_offset",
    "last_offset",
    "records",
    "size",
    "codec",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "transactional",
    "control",
)
"""The columns of a table; JSON and YAML have all fields of a batch. Faults are on stderr."""
_INDEXES = (".index", ".timeindex", ".txnindex", ".snapshot")


class Part(NamedTuple):
    """A part of a log. file: the file that contains it, or None if a broker has sent it."""

    found: Dumped | Torn
    file: Path | None = None


@command(app, "dump")
def dump_(
    invocation: Invocation,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files of segments, such as 00000000000000000000.log.", show_default=False)
    ],
    records: Records = False,
) -> Exit:
    """Print the batches of segment files, and verify their checksums. The exit code is 1 if a batch is damaged.

    JSON and YAML name the file of each row.
    """
    for file in files:
        if file.suffix in _INDEXES:
            raise typer.BadParameter(f"{file} is an index; its segment is {file.with_suffix('.log')}")
    found = (Part(one, file) for file in files for one in dump(_contents(file), topic=_topic_of(file), with_records=records))
    return _show(invocation, found, records=records, of_files=len(files) > 1)


@command(app)
def fetch(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    start: Annotated[
        str, typer.Option("--from", metavar="POSITION", help="Begin here: start, -1000, @2026-11-01T10:00, -1h, 42.")
    ] = "start",
    end: Annotated[str, typer.Option("--to", metavar="POSITION", help="Stop before this position.")] = "end",
    records: Records = False,
) -> Exit:
    """Print the batches that the leader of a partition holds, and verify checksums. Includes control batches and aborted transactions."""
    tp = one_partition(partition)
    first, last = parse_positions(start), parse_positions(end)
    with invocation.admin() as admin:
        leaders = {info.partition: info.leader for info in admin.describe_topics([tp.topic])[tp.topic].partitions}
        if tp.partition not in leaders:
            raise UnknownTopicOrPartitionError(f"{tp}: the topic has partitions 0 to {len(leaders) - 1}")
        if leaders[tp.partition] < 0:
            raise BrokerError(f"{tp} has no leader to fetch from")
        begin, until = offsets_between(invocation, first, last, tp)
        found = map(Part, dump_held(admin, tp, leaders[tp.partition], begin, until, with_records=records))
        return _show(invocation, found, records=records)


def _show(invocation: Invocation, found: Iterable[Part], *, records: bool, of_files: bool = False) -> Exit:
    """Print batches or records, report damage on stderr, and return the exit code. of_files: whether a table names each row's file."""
    faults: list[str] = []
    rows = [
        row if file is None else {"file": file.as_posix(), **row._asdict()}
        for batch, file in _whole(found, faults)
        for row in (batch.records if records else [batch.batch])
    ]
    columns = RecordRow._fields if records else _SHOWN
    invocation.show(rows, ("file", *columns) if of_files else columns)
    for fault in faults:
        invocation.say(fault)
    return Exit.FAILED if faults else Exit.DONE


def _whole(found: Iterable[Part], faults: list[str]) -> Iterator[tuple[Dumped, Path | None]]:
    for one, file in found:
        where = "" if file is None else f"{file}: "
        if isinstance(one, Torn):
            faults.append(f"{where}{counted(one.size, 'byte')} from position {one.position} on: {one.fault}")
            continue
        if one.batch.fault:
            faults.append(f"{where}position {one.batch.position}: {one.batch.fault}")
        yield one, file


def _topic_of(file: Path) -> str:
    # The directory of a log is called <topic>-<partition>.
    return file.resolve().parent.name.rpartition("-")[0]


def _contents(file: Path) -> memoryview:
    with file.open("rb") as opened:
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if file.stat().st_size else b"")

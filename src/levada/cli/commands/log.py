"""levada log: what is in a log, batch by batch, from a segment's file or from the broker that leads a partition."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation
from levada.cli.log_dump import Dumped, RecordRow, Torn, dump
from levada.cli.log_ends import log_ends
from levada.cli.log_held import dump_held
from levada.cli.partition_offsets import offsets_at, parse_positions
from levada.cli.partitions import one_partition
from levada.errors import BrokerError, UnknownTopicOrPartitionError

app = command_group("What is in a log, batch by batch.")

Records = Annotated[bool, typer.Option("--records", help="Show records instead of batches; those of coordinators' topics taken apart.")]
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
    "fault",
)
"""The columns of a table; JSON and YAML have all fields of a batch."""
_INDEXES = (".index", ".timeindex", ".txnindex", ".snapshot")


@command(app, "dump")
def dump_(
    invocation: Invocation,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Segments, such as 00000000000000000000.log.", show_default=False)],
    records: Records = False,
) -> Exit:
    """Dump files of segments, and verify checksums. The exit code is 1 if anything is damaged."""
    for file in files:
        if file.suffix in _INDEXES:
            raise typer.BadParameter(f"{file} is an index; its segment is {file.with_suffix('.log')}")
    found = (one for file in files for one in dump(_contents(file), topic=_topic_of(file), with_records=records))
    return _show(invocation, found, records=records)


@command(app)
def fetch(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    start: Annotated[
        str, typer.Option("--from", metavar="POSITION", help="Where to begin: start, -1000, @2026-11-01T10:00, -1h, 42.")
    ] = "start",
    end: Annotated[str, typer.Option("--to", metavar="POSITION", help="Where to stop.")] = "end",
    records: Records = False,
) -> Exit:
    """Dump what the leader of a partition holds, and verify checksums: control batches and aborted transactions included."""
    tp = one_partition(partition)
    first, last = parse_positions(start), parse_positions(end)
    with invocation.admin() as admin:
        leaders = {info.partition: info.leader for info in admin.describe_topics([tp.topic])[tp.topic].partitions}
        if tp.partition not in leaders:
            raise UnknownTopicOrPartitionError(f"{tp}: the topic has partitions 0 to {len(leaders) - 1}")
        if tp not in log_ends(admin, [tp]):
            raise BrokerError(f"{tp} has no leader, so there is nobody to ask")
        begin, until = offsets_at(invocation, first, [tp])[tp], offsets_at(invocation, last, [tp])[tp]
        return _show(invocation, dump_held(admin, tp, leaders[tp.partition], begin, until, with_records=records), records=records)


def _show(invocation: Invocation, found: Iterable[Dumped | Torn], *, records: bool) -> Exit:
    """Print batches or records, name what is damaged, and return the exit code."""
    faults: list[str] = []
    if records:
        invocation.show([record for batch in _whole(found, faults) for record in batch.records], RecordRow._fields)
    else:
        invocation.show([batch.batch for batch in _whole(found, faults)], _SHOWN)
    for fault in faults:
        invocation.say(fault)
    return Exit.FAILED if faults else Exit.DONE


def _whole(found: Iterable[Dumped | Torn], faults: list[str]) -> Iterator[Dumped]:
    for one in found:
        if isinstance(one, Torn):
            faults.append(f"{one.size} bytes from position {one.position} on: {one.fault}")
            continue
        if one.batch.fault:
            faults.append(f"position {one.batch.position}: {one.batch.fault}")
        yield one


def _topic_of(file: Path) -> str:
    # Kafka names the folder of a log by topic and partition.
    return file.resolve().parent.name.rpartition("-")[0]


def _contents(file: Path) -> memoryview:
    with file.open("rb") as opened:
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if file.stat().st_size else b"")

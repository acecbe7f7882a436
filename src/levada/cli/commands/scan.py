"""levada scan: writes a range of topics' records to a file of columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

from levada.base.text import did_you_mean
from levada.cli.arguments import OnDecodeError, Sources, schemas
from levada.cli.command import command
from levada.cli.invocation import Invocation
from levada.cli.offsets import EVERYTHING, parse_spans
from levada.cli.outcomes import advising
from levada.cli.positions import remarks, settled, topics_of
from levada.cli.progress import Progress
from levada.cli.records.schemas import OF_COLUMNS, column_formats, kinds_of
from levada.cli.text import counted
from levada.errors import ConfigError
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import ScanProgress
    from levada.cli.records.sinks import Destination
    from levada.registry import SchemaRegistryClient

app = typer.Typer(help="Write a range of topics' records to a file.", add_completion=False)

FLAT = ("topic", "partition", "offset", "timestamp", "key", "value")
"""The default columns of CSV. Headers are left out, because CSV has no lists."""
WITH_HEADERS = (*FLAT, "headers")
COLUMNS = (*WITH_HEADERS, "timestamp_type", "leader_epoch")
ABOUT_SCHEMAS = "--on-decode-error skip leaves such records out, and null keeps them without what cannot be decoded"
ABOUT_TEXT = "csv, duckdb and --text are for text; --format parquet, arrow and jsonl keep all bytes"


Schemas = Annotated[list[str] | None, schemas(f"Write columns with the fields of a registry's schema: {', '.join(OF_COLUMNS)}.")]


class Scanned(NamedTuple):
    """The result of a scan. bytes: size of the file, None for stdout."""

    file: str
    format: str
    records: int
    bytes: int | None


@command(app)
def scan(
    run: Invocation,
    topics: Sources,
    to: Annotated[str, Option("--to", metavar="FILE", help="File to write; - is stdout, for all formats but duckdb.")],
    offset: Annotated[
        str | None, Option("-o", "--offset", metavar="OFFSETS", help="Range to read, such as -1h, 0:42..100, or start..@2026-11-01.")
    ] = None,
    partition: Annotated[list[int] | None, Option("-p", "--partition", help="Only this partition; repeat it for more.")] = None,
    format: Annotated[
        str | None, Option("-f", "--format", help="parquet, csv, jsonl, arrow or duckdb. Default: by the suffix of the file's name.")
    ] = None,
    columns: Annotated[
        str | None,
        Option(
            "--columns", metavar="NAMES", help="Columns, separated by commas: topic, partition, offset, timestamp, key, value, headers, ..."
        ),
    ] = None,
    key: Annotated[list[str] | None, Option("--key", help="Only records with exactly this key; repeat it for more.")] = None,
    text: Annotated[
        bool, Option("--text", help="Write key and value as text; they must be UTF-8. Always done for csv and duckdb.")
    ] = False,
    compression: Annotated[
        str | None, Option("--compression", help="Codec of parquet (default zstd) or arrow (default none): zstd, lz4, ...")
    ] = None,
    schema: Schemas = None,
    on_decode_error: OnDecodeError = "raise",
    table: Annotated[str, Option("--table", help="Name of the table to create in a DuckDB database.")] = "records",
    batch_rows: Annotated[int, Option("--batch-rows", help="Rows of each Arrow batch, which becomes a row group in parquet.")] = 131_072,
) -> None:
    """Write a range of topics' records to a file.

    The end offsets are read once at the start, so the scan also ends if a topic is being written to. No offsets are committed.
    """
    from levada.cli.records.sinks import Destination, format_of

    kind = format_of(to, format)
    if not (folder := Path(to).parent).is_dir():
        raise ConfigError(f"--to {to}: there is no folder {folder}")
    wanted = _columns(columns, kind)
    as_text = kind != "jsonl" and (text or kind in ("csv", "duckdb"))
    typed = kinds_of(schema or (), OF_COLUMNS)
    if typed and kind == "csv":
        raise ConfigError("--schema: columns of a schema have fields, which CSV does not have; give another format")
    texts = [name for name in ("key", "value") if name in wanted and as_text and name not in typed]
    arguments: dict[str, Any] = {"columns": wanted, "text": texts, "keys": key or None, "batch_rows": batch_rows}
    if batch_rows < 1:
        raise ConfigError(f"--batch-rows must be at least 1, got {batch_rows}")
    ranges = _ranges(run, topics, offset, partition or ())
    with advising(ABOUT_SCHEMAS if schema else ABOUT_TEXT), ExitStack() as clients:
        registry = partial(_registry, run, clients)
        arguments |= column_formats(schema or (), sorted({tp.topic for tp in ranges}), on_decode_error, registry)
        records = _scanned(run, topics, ranges, arguments, Destination(to, kind, compression, table))
    result = Scanned(to, kind, records, None if to == "-" else Path(to).stat().st_size)
    if to == "-":
        run.say(counted(records, "record"))
    else:
        run.show(result)


def _registry(run: Invocation, clients: ExitStack) -> SchemaRegistryClient:
    return clients.enter_context(run.registry(asks_twice=False))


def _columns(given: str | None, kind: str) -> tuple[str, ...]:
    if given is None:
        return FLAT if kind == "csv" else WITH_HEADERS
    names = tuple(name.strip() for name in given.split(","))
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ConfigError(f"--columns: there is no '{unknown[0]}', only {', '.join(COLUMNS)}{did_you_mean(unknown[0], COLUMNS)}")
    if kind == "csv" and "headers" in names:
        raise ConfigError("--columns: headers are lists, which CSV does not have; give another format")
    return names


def _scanned(
    run: Invocation,
    topics: Sequence[str],
    ranges: dict[TopicPartition, tuple[int, int]],
    arguments: dict[str, Any],
    to: Destination,
) -> int:
    """Write the records to the file, and return their number."""
    from levada.cli.records.sinks import sink

    records = 0
    # A progress bar would mix with the records on the terminal.
    shown = nullcontext(Progress()) if to.path == "-" else run.progress(f"scan {', '.join(topics)}", unit="offset")
    with shown as bar:

        def progress(told: ScanProgress) -> None:
            bar.update(told.offsets, told.of)

        read = run.scan(assignments=ranges, progress=progress, **arguments)
        with sink(to, read.to_reader().schema) as writer:
            for batch in read.arrow():
                writer.write(batch)
                records += batch.num_rows
    return records


def _ranges(run: Invocation, topics: Sequence[str], offset: str | None, partitions: Sequence[int]) -> dict[TopicPartition, tuple[int, int]]:
    spans = EVERYTHING if offset is None else parse_spans(offset)
    with run.consumer() as consumer:
        found = settled(consumer, topics_of(consumer, topics), spans, only=partitions)
    for remark in remarks(found, waits=False):
        run.say(remark)
    return {tp: span.there for tp, span in found.items()}

"""levada produce: writes records from stdin or files to a topic."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from levada.base.clock import SystemClock
from levada.base.text import did_you_mean
from levada.cli.arguments import as_typed, check_partitions, schemas
from levada.cli.command import command
from levada.cli.exits import CommandError, Exit, exit_of, text_of
from levada.cli.invocation import Invocation
from levada.cli.offsets import parse_time
from levada.cli.output import OutputFormat
from levada.cli.progress import Pace
from levada.cli.records.input_records import (
    InputError,
    InputRecord,
    Nulls,
    blocks,
    check_columns,
    csv_rows,
    header_options,
    json_lines,
    lines,
    whole_file,
)
from levada.cli.records.schemas import KINDS, data_of, serializers
from levada.cli.records.template import unescaped
from levada.cli.text import counted
from levada.consumer.scan.bounds import moment
from levada.errors import ConfigError, KafkaError, SerializationError, TimeoutError, TransactionOutcomeUnknownError
from levada.types import Headers, RecordMetadata

if TYPE_CHECKING:
    from levada import ArrowDelivery, KafkaProducer
    from levada.cli.progress import Progress

MOST_SHOWN = 20
MOST_IN_FLIGHT = 16 << 20
"""Bytes of columns that are sent without waiting for the outcomes of earlier ones."""
MOST_ROWS = 16_384
"""Rows that are sent at a time. A key or headers of the command line are copied into a column for each of them."""
RECORDS_BETWEEN = 100
"""The position in the file is looked up once for this many lines, because that is a system call."""
LEAST_BLOCK = 32 << 10
"""A block of lines of at least this many bytes is sent as columns. A pipe holds 64 KiB."""


class Failure(NamedTuple):
    """A record that was not written. where: its line or row in the input."""

    where: str
    error: KafkaError


class Outcomes:
    """Counts acknowledged and failed records. Thread-safe: the command uses it, and so do callbacks on the producer's thread."""

    def __init__(self) -> None:
        self.taken = 0
        """Number of records passed to the producer. Only the command's thread changes it."""
        self.aborted = False
        """Whether the records' transaction was not committed. Then no record counts as acknowledged or as without an outcome."""
        self.in_doubt = False
        """Whether it is not known if the records' transaction was committed. Then all records count as without an outcome."""
        self.acknowledged = 0
        self.failed = 0
        self.shown: list[Failure] = []
        """The first failures. Later failures are only counted."""
        self._lock = Lock()

    @property
    def unknown(self) -> int:
        """Number of records without an outcome, 0 if their transaction was not committed. These records may have been written."""
        return 0 if self.aborted else self.taken - self.acknowledged - self.failed

    def done(self, where: str, line: int, _: RecordMetadata, error: KafkaError | None) -> None:
        """Count the outcome of one record. where: prefix of its place in messages, such as "file: ", or ""."""
        if error is None:
            self.add(1)
        else:
            self.fail(f"{where}line {line}", error)

    def add(self, count: int) -> None:
        """Count acknowledged records."""
        with self._lock:
            self.acknowledged += count

    def fail(self, where: str, error: KafkaError) -> None:
        """Count a failed record. where: its line or row."""
        with self._lock:
            self.failed += 1
            if len(self.shown) < MOST_SHOWN:
                self.shown.append(Failure(where, error))


app = typer.Typer(help="Write records from stdin or files to a topic.", add_completion=False)

FORMATS = ("lines", "json", "csv", "file", "parquet", "arrow")
OF_COLUMNS = ("parquet", "arrow")
SUFFIXES = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4")
STDIN = "-"
Timestamp = Annotated[
    str | None, Option("--timestamp", metavar="TIME", help="Timestamp of records without a timestamp, such as 2026-11-01T10:00.")
]
Schemas = Annotated[
    list[str] | None, schemas(f"Keys and values are JSON; write them in the newest schema of the registry: {', '.join(KINDS)}.")
]


class Given(NamedTuple):
    """The options for reading records, and the fields that records get if the input does not have them.

    keeps_partitions: whether to use a partition that the input names. ignores_columns: whether to leave out columns that records do not
    have, instead of refusing them.
    """

    topic: str
    format: str | None
    delimiter: bytes
    key_delimiter: bytes | None
    nulls: Nulls
    key: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None
    keeps_partitions: bool
    ignores_columns: bool
    rate: float | None
    schemas: Sequence[str] = ()


class Produced(NamedTuple):
    """The result: numbers of acknowledged and failed records."""

    acknowledged: int
    failed: int


@command(app)
def produce(
    run: Invocation,
    topic: Annotated[str, Argument(metavar="TOPIC", show_default=False, help="The topic to write to.")],
    files: Annotated[
        list[str] | None, Argument(metavar="FILE...", show_default=False, help="Files to read; - is stdin, the default.")
    ] = None,
    format: Annotated[
        str | None, Option("-f", "--format", help=f"{', '.join(FORMATS)}. Default: by the file's suffix, else lines.")
    ] = None,
    delimiter: Annotated[str, Option("-D", "--delimiter", help="For lines: text after each record.")] = "\\n",
    key_delimiter: Annotated[str | None, Option("-K", "--key-delimiter", help="For lines: text between key and value.")] = None,
    key: Annotated[str | None, Option("-k", "--key", help="The key of records without a key.")] = None,
    header: Annotated[
        list[str] | None, Option("-H", "--header", metavar="NAME=VALUE", help="A header for all records; repeat it for more.")
    ] = None,
    empty_is_null: Annotated[
        bool, Option("-Z", "--empty-is-null", help="Empty keys and values become null, in compacted topics a deletion; not for json.")
    ] = False,
    null: Annotated[str | None, Option("--null", metavar="TEXT", help="Keys and values of this text become null; not for json.")] = None,
    partition: Annotated[int | None, Option("-p", "--partition", min=0, help="Write to this partition. Default: the key decides.")] = None,
    keep_partitions: Annotated[bool, Option("--keep-partitions", help="Write to the partitions that JSON, CSV or columns name.")] = False,
    ignore_columns: Annotated[
        bool, Option("--ignore-columns", help="Leave out columns that records do not have, instead of refusing them.")
    ] = False,
    schema: Schemas = None,
    timestamp: Timestamp = None,
    compression: Annotated[str | None, Option("-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")] = None,
    acks: Annotated[str | None, Option("-a", "--acks", help="all (default), 1 or 0.")] = None,
    rate: Annotated[float | None, Option("--rate", min=0.001, help="Maximum number of records per second.")] = None,
    transactional_id: Annotated[
        str | None, Option("--transactional-id", help="Write all records in one transaction: read_committed consumers see all or none.")
    ] = None,
    quiet: Annotated[bool, Option("-q", "--quiet", help="Do not print the number of acknowledged records, unless some failed.")] = False,
) -> int:
    """Write records from stdin or files to a topic, and print how many were acknowledged.

    Formats: lines: one record per line. json: objects with key, value, headers, partition and timestamp, like the output of consume
    --format json. csv, parquet, arrow: columns with these names; if there is no column `value`, each row becomes a JSON object. file: each
    file is one value.
    """
    if not delimiter or key_delimiter == "":
        raise ConfigError("--delimiter and --key-delimiter need at least one character")
    given = Given(
        topic,
        _checked_format(format),
        unescaped(delimiter),
        None if key_delimiter is None else unescaped(key_delimiter),
        Nulls(empty_is_null, None if null is None else as_typed(null)),
        None if key is None else as_typed(key),
        header_options(header or ()),
        partition,
        None if timestamp is None else moment(parse_time(timestamp), SystemClock().wall_ms()).ms,
        keep_partitions,
        ignore_columns,
        rate,
        schema or (),
    )
    return _produce(
        run, given, files or [STDIN], {"compression_type": compression, "acks": acks, "transactional_id": transactional_id}, quiet
    )


def _checked_format(format: str | None) -> str | None:
    if format is not None and format not in FORMATS:
        raise ConfigError(f"format '{format}': expected {', '.join(FORMATS)}{did_you_mean(format, FORMATS)}")
    return format


def _format_of(file: str, given: Given) -> str:
    suffix = Path(file).suffix.lower()
    if given.format is None and suffix in COMPRESSED:
        format = SUFFIXES.get(Path(Path(file).stem).suffix.lower(), "lines")
        raise ConfigError(
            f"{file} is compressed; give its content to stdin: gzip -dc or the like, then levada produce {given.topic} -f {format}"
        )
    return given.format or SUFFIXES.get(suffix, "lines")


def _produce(run: Invocation, given: Given, files: Sequence[str], chosen: dict[str, Any], quiet: bool) -> int:
    settings = {name: value for name, value in chosen.items() if value is not None}
    if any(_format_of(file, given) in OF_COLUMNS for file in files):
        from levada.cli.records.columns import check_pyarrow

        if given.schemas:
            raise ConfigError("--schema is for lines, json, csv and file, not for columns")
        check_pyarrow()
    outcomes = Outcomes()
    sending: _Sending | None = None
    try:
        with ExitStack() as clients, run.producer(**settings) as producer, run.progress(f"produce {given.topic}") as bar:
            there = _partitions(producer, given)
            with _transaction(producer, "transactional_id" in settings, outcomes):
                encode = serializers(given.schemas, given.topic, lambda: clients.enter_context(run.registry(asks_twice=False)))
                sending = _Sending(producer, given, files, there, outcomes, bar, encode)
                for file in files:
                    sending.send_file(file, named=len(files) > 1)
                sending.finish()
    except BaseException as broken_off:
        if sending is not None:
            sending.count_settled()
        # Counts are printed only if a record was sent. Otherwise the error is enough.
        if outcomes.taken:
            _tell(run, outcomes, quiet)
        if outcomes.acknowledged and isinstance(broken_off, CommandError | OSError):
            raise CommandError(text_of(broken_off), Exit.PARTLY) from broken_off
        raise
    _tell(run, outcomes, quiet)
    if not outcomes.failed:
        return Exit.DONE
    return Exit.PARTLY if outcomes.acknowledged else exit_of(outcomes.shown[0].error)


def _partitions(producer: KafkaProducer[Any, Any], given: Given) -> frozenset[int]:
    """Wait for the topic's metadata, and return its partitions. Without metadata, send() would wait max.block.ms for each record.

    Raises ConfigError if a named partition does not exist: send() would wait for it, because somebody may be adding the partition.
    """
    there = frozenset(info.partition for info in producer.partitions_for(given.topic))
    if given.partition is not None:
        check_partitions(given.topic, [given.partition], there)
    return there


def _transaction(producer: KafkaProducer[Any, Any], wanted: bool, outcomes: Outcomes) -> AbstractContextManager[object]:
    return _all_or_nothing(producer, outcomes) if wanted else nullcontext()


@contextmanager
def _all_or_nothing(producer: KafkaProducer[Any, Any], outcomes: Outcomes) -> Iterator[None]:
    """Run the block in one transaction, which is aborted if the block raises an error or a record failed.

    Unless it is known to be committed, no record counts as acknowledged.
    """
    commits = False
    try:
        with producer.transaction():
            yield
            if outcomes.failed:
                raise CommandError(f"the transaction was aborted: {counted(outcomes.failed, 'record')} failed")
            commits = True
    except BaseException as error:
        # Ctrl-C while the commit is under way is no Exception, and leaves the outcome unknown, too.
        outcomes.in_doubt = isinstance(error, TransactionOutcomeUnknownError) or (commits and not isinstance(error, Exception))
        outcomes.acknowledged, outcomes.aborted = 0, not outcomes.in_doubt
        raise


def _tell(run: Invocation, outcomes: Outcomes, quiet: bool) -> None:
    for failure in outcomes.shown:
        # The error of a row names it by its place in the data of one send_arrow(), which is a part of the file.
        run.say(f"{failure.where}: {re.sub(r'^row [0-9]+ for ', '', str(failure.error))}")
    if (more := outcomes.failed - len(outcomes.shown)) > 0:
        run.say(f"and {more:,} more failed")
    if run.asked_format in (OutputFormat.JSON, OutputFormat.YAML):
        run.show(Produced(outcomes.acknowledged, outcomes.failed))
    elif not quiet or outcomes.failed:
        run.say(f"{counted(outcomes.acknowledged, 'record')} acknowledged" + (f", {outcomes.failed:,} failed" if outcomes.failed else ""))
    if outcomes.in_doubt:
        run.say(f"{counted(outcomes.unknown, 'record')} may have been written, all or none of them")
    elif outcomes.unknown:
        run.say(f"{counted(outcomes.unknown, 'record')} sent without an acknowledgement; some may have been written")


class _Sending:
    """Sends the records of files, one file after another."""

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        given: Given,
        files: Sequence[str],
        there: frozenset[int],
        outcomes: Outcomes,
        bar: Progress,
        encode: Mapping[str, Callable[[Any], bytes | None]],
    ) -> None:
        self._encode = encode
        """Functions by "key" and "value", from data of JSON to the bytes of a schema."""
        self._producer, self._given, self._there, self._outcomes, self._bar = producer, given, there, outcomes, bar
        self._pace = Pace(given.rate)
        self._columns: deque[tuple[str, int, int, ArrowDelivery]] = deque()
        """Arrow batches in flight: their file and "row" or "line", number of the first one, bytes, delivery."""
        self._in_flight = 0
        """Bytes of these batches."""
        self._total_bytes = _size_of(files, given)
        self._bytes_before = 0
        """Bytes of the files before the one that is being read."""

    def send_file(self, file: str, *, named: bool) -> None:
        """Send all records of a file. named: whether messages name the file.

        Raises CommandError for a line, row or file that cannot be read as records, and OSError if the file cannot be opened.
        """
        given = self._given
        format = _format_of(file, given)
        where = f"{file}: " if named else ""
        if format in OF_COLUMNS:
            self._send_columns(file, format, where)
            return
        try:
            with _opened(file) as stream:
                if format == "lines":
                    read = partial(lines, delimiter=given.delimiter, key_delimiter=given.key_delimiter, nulls=given.nulls)
                    self._send_blocks(stream, given.delimiter, read, self._columns_of_lines, where)
                elif format == "json":
                    self._send_blocks(stream, b"\n", json_lines, self._columns_of_json, where)
                else:
                    for record in self._records(stream, format):
                        self._send(record, where)
                        if record.line % RECORDS_BETWEEN == 0:
                            self._note_read(stream)
                    self._note_read(stream)
                self._bytes_before += stream.tell() if self._total_bytes else 0
        except InputError as wrong:
            # Records before the bad line were sent. Their outcomes are needed for the result.
            self.finish()
            raise CommandError(f"{where}line {wrong.line}: {wrong}") from None

    def finish(self) -> None:
        """Wait until every record is acknowledged or has failed."""
        self._settle_columns(-1)
        self._producer.flush()

    def _records(self, stream: IO[bytes], format: str) -> Iterator[InputRecord]:
        given = self._given
        if format == "csv":
            return csv_rows(stream, given.nulls, ignores_columns=given.ignores_columns)
        return whole_file(stream, given.nulls)

    def _send_blocks(
        self,
        stream: IO[bytes],
        delimiter: bytes,
        read: Callable[[bytes, int], Iterable[InputRecord]],
        columns: Callable[[bytes], Any],
        where: str,
    ) -> None:
        """Send the records of blocks of lines.

        read: returns the records of a block. columns: returns them as columns, or None if read() has to, for example to raise an error.
        """
        for first, block in blocks(stream, delimiter):
            # A small block is not worth the import of pyarrow.
            is_large = len(block) >= LEAST_BLOCK and not self._encode and _has_pyarrow()
            if is_large and (batch := columns(block)) is not None:
                self._send_batch(batch, first, f"{where}line")
            else:
                for record in read(block, first):
                    self._send(record, where)
            self._note_read(stream)

    def _columns_of_lines(self, block: bytes) -> Any:
        from levada.cli.records.columns import columns_of_lines

        given = self._given
        return columns_of_lines(block, given.delimiter, given.key_delimiter, given.nulls)

    def _columns_of_json(self, block: bytes) -> Any:
        """Return columns with the headers of the command line, or None if each record has to be sent alone."""
        from levada.cli.records.columns import columns_of_json

        batch = columns_of_json(block, self._given.headers)
        if batch is None or not self._given.keeps_partitions or "partition" not in batch.schema.names:
            return batch
        # _send() raises the error for the first record with a partition that is not there.
        return batch if {*batch.column("partition").unique().to_pylist()} <= {*self._there, None} else None

    def _note_read(self, stream: IO[bytes]) -> None:
        if self._total_bytes:
            self._bar.reach((self._bytes_before + stream.tell()) / self._total_bytes)

    def _send(self, record: InputRecord, where: str) -> None:
        given = self._given
        self._pace.wait()
        try:
            # Count the record before it is sent, because Ctrl-C may interrupt send() while it waits.
            self._outcomes.taken += 1
            self._producer.send(
                given.topic,
                self._encoded("value", record.value),
                self._encoded("key", given.key if record.key is None else record.key),
                partition=self._partition_of(record),
                timestamp=given.timestamp_ms if record.timestamp is None else record.timestamp,
                headers=[*record.headers, *given.headers],
                on_delivery=partial(self._outcomes.done, where, record.line),
            )
        except Exception as wrong:
            self._outcomes.taken -= 1
            if isinstance(wrong, ValueError | SerializationError):
                # For example, a negative timestamp, or a value that does not fit its schema.
                raise InputError(record.line, str(wrong)) from None
            raise
        self._bar.advance()

    def _encoded(self, part: str, text: bytes | None) -> bytes | None:
        """Return a key or value in its schema. Raises SerializationError or ValueError if it does not fit."""
        encode = self._encode.get(part)
        return text if encode is None or text is None else encode(data_of(text))

    def _partition_of(self, record: InputRecord) -> int | None:
        if record.partition is None or not self._given.keeps_partitions:
            return self._given.partition
        if record.partition not in self._there:
            check_partitions(self._given.topic, [record.partition], self._there)
        return record.partition

    # Columns

    def _send_columns(self, file: str, format: str, where: str) -> None:
        from levada.cli.records.columns import as_values, column_batches

        row = 1
        for batch in column_batches(file, format):
            if "value" not in batch.schema.names:
                batch = as_values(batch)
            self._check_columns(batch.schema.names, where)
            self._check_no_clash(batch.schema.names)
            self._send_batch(batch, row, f"{where}row")
            row += batch.num_rows

    def _check_columns(self, names: Sequence[str], where: str) -> None:
        try:
            if not self._given.ignores_columns:
                check_columns(names)
        except ValueError as fault:
            raise CommandError(f"{where}{fault}") from None

    def _check_no_clash(self, names: Sequence[str]) -> None:
        given = self._given
        own = {"key": given.key, "headers": given.headers or None, "timestamp": given.timestamp_ms}
        if clash := [name for name, value in own.items() if value is not None and name in names]:
            raise ConfigError(f"--{clash[0].removesuffix('s')} is for records without one, but the file has a column {clash[0]}")

    def _send_batch(self, batch: Any, first_row: int, where: str) -> None:
        """Send rows, with the given fields where they have none. where: what messages call a row, before its number."""
        from levada.cli.records.columns import with_constant, with_default

        given, names = self._given, batch.schema.names
        # A column of headers has those of the command line already.
        own = {"key": given.key, "headers": given.headers or None, "partition": given.partition, "timestamp": given.timestamp_ms}
        used: dict[str, Any] = {name: name for name in ("key", "value", "headers", "timestamp") if name in names}
        if given.keeps_partitions and "partition" in names:
            used["partition"] = "partition"
        missing = {name: value for name, value in own.items() if value is not None and not (name == "headers" and name in used)}
        add = {name: with_default if name in used else with_constant for name in missing}
        used |= {name: name for name in missing}
        at_once = min(self._pace.at_once, MOST_ROWS)
        for first in range(0, batch.num_rows, at_once):
            part = batch.slice(first, at_once)
            for name, value in missing.items():
                part = add[name](part, name, value)
            self._pace.wait(part.num_rows)
            # Count the rows before they are sent, because Ctrl-C may interrupt send_arrow() while it waits.
            self._outcomes.taken += part.num_rows
            try:
                delivery = self._producer.send_arrow(given.topic, part, **used)
            except Exception:
                self._outcomes.taken -= part.num_rows
                raise
            self._columns.append((where, first_row + first, part.nbytes, delivery))
            self._in_flight += part.nbytes
            self._settle_columns(MOST_IN_FLIGHT)
            self._bar.advance(part.num_rows)

    def _settle_columns(self, most: int) -> None:
        """Wait for the outcomes of batches and count them, the oldest batch first, until those left have at most `most` bytes.

        most: -1 for all batches.
        """
        while self._columns and self._in_flight > most:
            where, first, size, delivery = self._columns[0]
            first_error = delivery.exception()
            self._columns.popleft()
            self._in_flight -= size
            self._count(where, first, delivery, first_error)

    def count_settled(self) -> None:
        """After a run that was broken off, count the outcomes that are known. After an aborted transaction there are none to count."""
        while self._columns and not self._outcomes.aborted:
            where, first, _, delivery = self._columns.popleft()
            with suppress(TimeoutError):
                self._count(where, first, delivery, delivery.exception(0))

    def _count(self, where: str, first_row: int, delivery: ArrowDelivery, first_error: KafkaError | None) -> None:
        """Count the outcomes of a batch that has all of them. where: what messages call a row, before its number."""
        report = delivery.counts()
        self._outcomes.add(report.rows - report.failed)
        if report.failed:
            for row, error in zip(*(delivery.table().column(name).to_pylist() for name in ("row", "error")), strict=True):
                if error is not None:
                    self._outcomes.fail(f"{where} {first_row + row}", first_error or KafkaError(error))
                    first_error = None


@cache
def _has_pyarrow() -> bool:
    from levada.cli.records.columns import check_pyarrow

    try:
        check_pyarrow()
    except ImportError:
        # It is missing, or cannot be used here, for example beside an older numpy.
        return False
    return True


def _size_of(files: Sequence[str], given: Given) -> int | None:
    """Return how many bytes are read from start to end of the files; None if that is not known."""
    if any(file == STDIN or _format_of(file, given) in OF_COLUMNS or not Path(file).is_file() for file in files):
        return None
    return sum(Path(file).stat().st_size for file in files)


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == STDIN:
        yield sys.stdin.buffer
    else:
        with Path(file).open("rb") as stream:
            yield stream

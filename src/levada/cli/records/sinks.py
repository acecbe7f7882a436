"""Writers of the files of `scan --to`: parquet, Arrow, CSV, JSON lines, and DuckDB tables."""

from __future__ import annotations

import io
import sys
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from levada.base.text import did_you_mean, visible
from levada.cli.exits import CommandError
from levada.cli.records.columns import bytes_of, rows_as_json
from levada.errors import ConfigError

SUFFIXES: Mapping[str, str] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}
REPEATED = ("topic", "partition", "timestamp_type", "leader_epoch")
"""Columns with few distinct values, for which dictionary encoding saves space."""
GROWING = ("offset", "timestamp")
"""Columns whose values differ little from row to row, for which delta encoding saves space."""
MOST_WAITING = 4
"""Arrow batches that may wait for the writer before reading waits for it."""
JSON_ROWS = 4096
"""Rows that become JSON at a time. The texts of more rows need new memory again and again."""
STDOUT = "-"


class Destination(NamedTuple):
    """The target of a scan. path: "-" is stdout. compression: None for the format's default. table: name of the table in DuckDB."""

    path: str
    format: str
    compression: str | None = None
    table: str = "records"


class Sink(Protocol):
    """A writer of Arrow batches."""

    def write(self, batch: Any) -> None:
        """Write a batch."""
        ...

    def finish(self) -> None:
        """Complete the file after the last batch, for example with a footer."""
        ...

    def close(self) -> None:
        """Close the file, whether or not it was finished."""
        ...


def format_of(path: str, given: str | None) -> str:
    """Return the format of a file: the given one, else the one of the name's suffix. Raises ConfigError."""
    formats = sorted(set(SUFFIXES.values()))
    if given is not None:
        if given not in formats:
            raise ConfigError(f"format '{given}': expected {', '.join(formats)}{did_you_mean(given, formats)}")
        return given
    found = SUFFIXES.get(Path(path).suffix.lower())
    if found is None:
        what = "stdout has no suffix" if path == STDOUT else f"{path}: its name does not show a format"
        raise ConfigError(f"{what}; give --format {'|'.join(formats)}")
    return found


@contextmanager
def sink(to: Destination, schema: Any) -> Iterator[Sink]:
    """Return a context manager that writes a file of columns.

    The file has a temporary name until it is complete: an interrupted run leaves no incomplete file, and does not change an existing one.
    A DuckDB table is written in one transaction; the database may exist. What an interrupted run wrote to stdout stays there. A thread
    writes, while the caller reads. Raises ConfigError if the format does not allow a setting or this stdout, ImportError if a package is
    missing, and CommandError for the errors of DuckDB.
    """
    _check_compression(to.format, to.compression)
    make = _MAKERS[to.format]
    if to.path == STDOUT:
        if to.format == "duckdb":
            raise ConfigError("duckdb cannot be written to a pipe; name a file, or give --format parquet, arrow, jsonl or csv")
        if to.format in ("arrow", "parquet") and sys.stdout.isatty():
            raise ConfigError(
                f"{to.format} is binary and cannot be shown on a terminal; name a file, use a pipe, or give --format jsonl or csv"
            )
        out: Any = sys.stdout.buffer
        if to.format == "parquet":
            out = _Pipe(out)
        elif to.format == "csv" and sys.stdout.isatty():
            out = _Terminal(out)
        with _written(make(out, schema, to)) as writer:
            yield writer
        return
    if to.format == "duckdb":
        with _removed_if_new(Path(to.path)), _written(make(to.path, schema, to)) as writer:
            yield writer
        return
    part = f"{to.path}.part"
    try:
        with _written(make(part, schema, to)) as writer:
            yield writer
        Path(part).replace(to.path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


@contextmanager
def _removed_if_new(database: Path) -> Iterator[None]:
    """If the block fails, remove a database that it created, and the log file that DuckDB writes beside it."""
    was_there = database.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            for path in (database, database.with_name(f"{database.name}.wal")):
                path.unlink(missing_ok=True)
        raise


@contextmanager
def _written(to: Sink) -> Iterator[Sink]:
    with ThreadPoolExecutor(1, "levada-writer") as pool:
        writer = _Behind(to, pool)
        try:
            yield writer
            writer.finish()
            pool.submit(to.finish).result()
        finally:
            pool.submit(to.close).result()


class _Behind:
    """A sink that writes in a thread, in order, up to a few batches behind its caller."""

    def __init__(self, to: Sink, pool: ThreadPoolExecutor) -> None:
        self._to, self._pool = to, pool
        self._waiting: deque[Future[None]] = deque()

    def write(self, batch: Any) -> None:
        """Queue a batch for the thread. Wait if too many are queued. Raises the error of an earlier batch."""
        while len(self._waiting) >= MOST_WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._to.write, batch))

    def finish(self) -> None:
        """Wait until all is written."""
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """Do nothing: this sink has no file of its own."""


class _OfArrow:
    """A sink around one of Arrow's writers. Closing the writer completes the file, and may be repeated."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, batch: Any) -> None:
        self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()

    def close(self) -> None:
        self._writer.close()


def _parquet(file: Any, schema: Any, to: Destination) -> Sink:
    import pyarrow.parquet as pq

    def among(names: Sequence[str]) -> list[str]:
        return [name for name in schema.names if name in names]

    # Statistics are kept for the columns that readers filter by. zstd at its lowest level is the fastest codec here, because it writes the
    # fewest bytes.
    writer = pq.ParquetWriter(
        file,
        schema,
        compression=to.compression or "zstd",
        use_dictionary=among(REPEATED) or False,
        column_encoding=dict.fromkeys(among(GROWING), "DELTA_BINARY_PACKED"),
        write_statistics=among((*REPEATED, *GROWING, "key")) or False,
    )
    return _OfArrow(writer)


def _arrow(file: Any, schema: Any, to: Destination) -> Sink:
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression=to.compression)
    make = pa.ipc.new_file if isinstance(file, str) else pa.ipc.new_stream
    return _OfArrow(make(file, schema, options=options))


def _csv(file: Any, schema: Any, to: Destination) -> Sink:
    import pyarrow.csv as csv

    return _OfArrow(csv.CSVWriter(file, schema))


class _Pipe(io.RawIOBase):
    """A stream that knows its position, which a pipe does not: the footer of a parquet file has the positions of its parts."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to, self._written = to, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, some: Any) -> int:
        self._to.write(some)
        self._written += len(some)
        return len(some)

    def flush(self) -> None:
        self._to.flush()


class _Terminal(io.RawIOBase):
    """A stream for text to a terminal, which escapes control characters, for example as \\x1b."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to = to
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        self._to.write(visible(self._decoder.decode(some)).encode())
        return len(some)


class _JsonLines:
    def __init__(self, file: Any, schema: Any, to: Destination) -> None:
        self._owned = isinstance(file, str)
        self._file = Path(file).open("wb") if self._owned else file  # noqa: SIM115 - closed by close()

    def write(self, batch: Any) -> None:
        for first in range(0, batch.num_rows, JSON_ROWS):
            self._file.write(bytes_of(rows_as_json(batch.slice(first, JSON_ROWS), end="\n")))

    def finish(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._owned:
            self._file.close()


class _DuckDB:
    def __init__(self, file: Any, schema: Any, to: Destination) -> None:
        try:
            import duckdb
        except ModuleNotFoundError:
            raise ImportError("writing a DuckDB database needs duckdb: pip install duckdb") from None
        self._path, self._fault = to.path, duckdb.Error
        self._table = '"' + to.table.replace('"', '""') + '"'
        try:
            self._connection = duckdb.connect(file)
            self._connection.begin()
            self._insert(schema.empty_table(), f"CREATE TABLE {self._table} AS")
        except duckdb.CatalogException as fault:
            raise CommandError(f"{to.path}: {fault}; choose another name with --table") from None
        except duckdb.Error as fault:
            raise CommandError(f"{to.path}: {fault}") from None

    def write(self, batch: Any) -> None:
        import pyarrow as pa

        with self._named():
            self._insert(pa.Table.from_batches([batch]), f"INSERT INTO {self._table}")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._fault as fault:
            raise CommandError(f"{self._path}: {fault}") from None

    def _insert(self, rows: Any, statement: str) -> None:
        self._connection.register("rows_of_levada", rows)
        self._connection.execute(f"{statement} SELECT * FROM rows_of_levada")
        self._connection.unregister("rows_of_levada")

    def finish(self) -> None:
        with self._named():
            self._connection.commit()

    def close(self) -> None:
        with self._named():
            self._connection.close()


COMPRESSIONS: Mapping[str, Sequence[str]] = {
    "parquet": ("none", "snappy", "gzip", "brotli", "zstd", "lz4"),
    "arrow": ("zstd", "lz4"),
}


def _check_compression(format: str, compression: str | None) -> None:
    if compression is None or compression in COMPRESSIONS.get(format, ()):
        return
    if format not in COMPRESSIONS:
        raise ConfigError(f"--compression is for {' and '.join(COMPRESSIONS)}, not for {format}")
    known = COMPRESSIONS[format]
    raise ConfigError(f"--compression '{compression}': {format} has {', '.join(known)}{did_you_mean(compression, known)}")


_MAKERS: Mapping[str, Callable[[Any, Any, Destination], Sink]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "jsonl": _JsonLines,
    "duckdb": _DuckDB,
}

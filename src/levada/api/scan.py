"""What scan() does in both APIs: its arguments become a plan, and each iteration reads it with a consumer that ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

from levada.api.arguments import column_names, positive, text_columns, topic_names, topic_partition
from levada.api.columns import DEFAULT_COLUMNS, decoder, importing_columns, typed_columns
from levada.api.consumer.consuming import Consuming
from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow, Compute
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.config import ConsumerConfig
from levada.consumer.consumer_flows import Post
from levada.consumer.fetch.columns_ahead import BatchSink
from levada.consumer.scan.bounds import Bound, is_reversed, parsed_time
from levada.consumer.scan.ranges import Range, Ranges, split_ranges
from levada.consumer.scan.scanning import RecordFilter, Scanning, ScanPlan, ScanProgress
from levada.errors import ConfigError, IllegalStateError, OffsetOutOfRangeError
from levada.formats.arguments import ARGUMENTS
from levada.types import AnyRecord, K, TopicPartition, V

if TYPE_CHECKING:
    from levada.formats.columns import RecordColumns

SAMPLE_BYTES = 64 << 10
"""How much of each partition is read to estimate the size of its records."""
SAMPLE_POLLS = 50
FILTERED_BY = ("key", "timestamp")
"""The columns that a filter looks at."""


class ScanRequest(NamedTuple):
    """The checked arguments of scan(). rows, size: the number of rows, or of bytes, at which an Arrow batch is full.

    is_filtered: whether keys or timestamps select the records to return. progress: the program's callback; None without one. typed: the
    columns if keys or values have a format; else None.
    """

    plan: ScanPlan
    config: ConsumerConfig
    columns: tuple[str, ...] | None
    text: tuple[str, ...]
    rows: int
    size: int
    is_filtered: bool = False
    progress: Callable[[ScanProgress], object] | None = None
    typed: RecordColumns | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns to read, without those that only the filter needs."""
        if self.typed is not None:
            return tuple(self.typed.needed)
        return DEFAULT_COLUMNS if self.columns is None else self.columns

    def sink(self) -> Any:
        """Return a decoder for the columns to read and those that the filter needs."""
        self._check_no_deserializers()
        more = [name for name in FILTERED_BY if name not in self.names] if self.is_filtered else []
        return decoder((*self.names, *more), self.text, self.config)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the result. May ask the schema registry, once."""
        self._check_no_deserializers()
        return decoder(self.columns, self.text, self.config).schema if self.typed is None else self.typed.schema

    def _check_no_deserializers(self) -> None:
        """Raise IllegalStateError for a column that the program wants deserialized, because a column has the bytes of the records."""
        for name, deserializer in (("key", self.config.key_deserializer), ("value", self.config.value_deserializer)):
            if deserializer is not None and name in self.names:
                raise IllegalStateError(
                    f"this scan has a {name}_deserializer, which is not applied to columns; iterate over the scan for deserialized "
                    f"records, or leave the {name}_deserializer out: for typed columns with {name}_format, else for a column of bytes"
                )

    def stream(self, batches: Iterable[Any], requested_schema: object | None) -> object:
        """Return Arrow batches as a capsule of Arrow's C stream interface."""
        schema = self.schema
        from levada.record.columnar import stream

        return stream(schema, batches, requested_schema)

    def reader(self, batches: Iterable[Any]) -> Any:
        """Return a pyarrow.RecordBatchReader over Arrow batches."""
        schema = self.schema
        from levada.record.columnar import reader

        return reader(schema, batches)

    def part(self, ranges: Mapping[TopicPartition, Range], kept: RecordFilter | None) -> ScanRequest:
        """Return the request for a part of this scan. It can be pickled, so it has no progress callback."""
        plan = ScanPlan(Ranges.of_assignments(ranges), kept, skips=self.plan.skips)
        return self._replace(plan=plan, progress=None)

    def sampling(self) -> ScanRequest:
        """Return the same request with small fetches, to read only the first records of each partition."""
        config = self.config
        given = {name: getattr(config, name.replace(".", "_")) for name in config.given - {"key.deserializer", "value.deserializer"}}
        return self._replace(config=ConsumerConfig.parse({**given, "max.partition.fetch.bytes": SAMPLE_BYTES}))


def scan_request(
    topics: str | Iterable[str] | None,
    config: Mapping[str, Any] | None,
    *,
    start: Bound | Mapping[Any, Bound] = "earliest",
    end: Bound | Mapping[Any, Bound] = "latest",
    assignments: Mapping[TopicPartition, tuple[Bound, Bound]] | None = None,
    partitions: Iterable[int | TopicPartition] | None = None,
    keys: Iterable[bytes | str | None] | None = None,
    timestamps: tuple[Bound | None, Bound | None] | None = None,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    batch_rows: int = 65_536,
    batch_bytes: int = 16 << 20,
    on_data_loss: str = "raise",
    progress: Callable[[ScanProgress], object] | None = None,
    **settings: Any,
) -> ScanRequest:
    """Check the arguments of scan(), which ScanArguments describes, and return them as a request.

    settings: also the arguments about formats. Raises ConfigError, TypeError, ValueError for a name that is not a column, and
    IllegalStateError for a named column that has a deserializer.
    """
    formats = {name: settings.pop(name) for name in ARGUMENTS if name in settings}
    _refuse_misspelt(settings)
    if on_data_loss not in ("raise", "skip"):
        raise ConfigError(f"on_data_loss must be 'raise' or 'skip', got {on_data_loss!r}")
    if (topics is None) == (assignments is None):
        raise ConfigError("give either topics or assignments")
    if assignments is not None and partitions is not None:
        raise ConfigError("assignments name the partitions to be read; give partitions with topics only")
    if not (progress is None or callable(progress)):
        raise ConfigError(f"progress is called with a ScanProgress, got {progress!r}")
    names = topic_names([topics] if isinstance(topics, str) else topics or ())
    named = {topic_partition(tp): bounds for tp, bounds in (assignments or {}).items()}
    ranges = Ranges.of_topics(names, start, end, partitions) if assignments is None else Ranges.of_assignments(named)
    kept = _kept(keys, timestamps)
    plan = ScanPlan(ranges, kept, skips=on_data_loss == "skip")
    wanted, strings = None if columns is None else column_names(columns), text_columns(text)
    topics_read = names if assignments is None else sorted({tp.topic for tp in named})
    typed = typed_columns(wanted, strings, formats, topics_read) if any(one is not None for one in formats.values()) else None
    request = ScanRequest(plan, _config(config, settings), wanted, strings, batch_rows, batch_bytes, kept is not None, progress, typed)
    if typed is None and (columns is not None or request.text):
        _ = request.schema  # It knows which columns there are.
    return request


def _kept(keys: Any, timestamps: Any) -> RecordFilter | None:
    if keys is None and timestamps is None:
        return None
    if isinstance(keys, str | bytes):
        raise ConfigError(f"keys are a list of keys; for one write keys=[{keys!r}]")
    if timestamps is not None and not (isinstance(timestamps, tuple | list) and len(timestamps) == 2):
        raise ConfigError(f"timestamps are a pair, the first time and the first that is too late, either may be None; got {timestamps!r}")
    wanted = None if keys is None else frozenset(_key(key) for key in keys)
    first, end = (None if time is None else parsed_time("timestamps", time) for time in timestamps or (None, None))
    if first is not None and end is not None and is_reversed(first, end):
        raise ConfigError(f"timestamps end before they begin, so there is nothing to read; got {timestamps!r}")
    return RecordFilter(wanted, first, end)


def _key(key: Any) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise ConfigError(f"keys are looked for as bytes, str (as UTF-8) or None; got {key!r}")


def _refuse_misspelt(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for a name that is not a setting of a consumer, but similar to an argument of scan()."""
    own = (*(scan_request.__kwdefaults__ or ()), *ARGUMENTS)
    for name in settings:
        dotted = name.replace("_", ".")
        if dotted in ConsumerConfig.OPTIONS or dotted in ConsumerConfig.ALIASES:
            continue
        if close := get_close_matches(name, own, n=1, cutoff=0.7):
            raise ConfigError(f"unknown option '{name}'; did you mean '{close[0]}'?")


REFUSED: Mapping[str, str] = {
    "auto.offset.reset": "see start and on_data_loss",
    "group.id": "it begins and ends where it is told to, and commits nothing",
    "interceptors": "nobody polls",
    "stop.at.end": "it ends by itself",
    "consumer.timeout.ms": "it ends at its end; see default.api.timeout.ms for when nothing moves",
}
"""Settings of a consumer that make no sense for a scan."""


def _config(config: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> ConsumerConfig:
    given = ConsumerConfig.parse(config, **settings).given
    for name, why in REFUSED.items():
        if name in given:
            raise ConfigError(f"'{name}' does not apply to a scan: {why}")
    own = {"allow.auto.create.topics": False, "auto.offset.reset": "none"}
    return ConsumerConfig.parse({**(config or {}), **{key: value for key, value in own.items() if key not in given}}, **settings)


class ScanReading:
    """One iteration of a scan. It has its own connections."""

    def __init__(self, request: ScanRequest, engine: Engine, host: Host, random: Random, post: Post | None = None) -> None:
        self._request = request
        self._host = host
        self._kept = request.plan.kept(host.wall_ms())
        keeps = None if self._kept is None else self._kept.keeps
        self._consuming = Consuming(request.config, engine, host, random=random, post=post, keeps=keeps)
        self._scanning = Scanning(request.plan, self._consuming.reading, engine, host)
        self._handed_out = 0
        self._decode: Callable[[Any], Any] | None = None

    def records(self) -> CallerFlow[list[AnyRecord] | None]:
        """Return the next records; None at the end of the scan."""
        if self._request.typed is not None:
            raise ConfigError(
                "value_format and key_format are for columns: call arrow() or to_table(), or give a value_deserializer for records"
            )
        records = yield from self._scanning.records()
        self._tell(len(records or ()))
        return records

    def batch(self, sink: BatchSink) -> CallerFlow[Any]:
        """Return the next Arrow batch; None at the end of the scan."""
        if self._request.typed is not None and self._decode is None:
            self._decode = yield Compute(self._request.typed.decoder, may_block=True)
        while (batch := (yield from self._scanning.batch(sink, self._request.rows, self._request.size))) is not None:
            kept = self._filtered(batch)
            if self._decode is not None:
                kept = yield Compute(partial(self._decode, kept), kept.nbytes, may_block=True)
            self._tell(kept.num_rows)
            if kept.num_rows:
                return kept
        self._tell(0)
        return None

    def _filtered(self, batch: Any) -> Any:
        if self._kept is None:
            return batch
        with importing_columns():
            from levada.record.columnar import rows_kept
        return rows_kept(batch, self._request.names, self._kept.keys, *self._kept.span_ms)

    def _tell(self, records: int) -> None:
        self._handed_out += records
        if self._request.progress is not None:
            progress = self._scanning.progress(self._handed_out)
            with self._host.user_code():
                self._request.progress(progress)

    def splits(self, whole: ScanRequest, rows: int | None, size_bytes: int | None) -> CallerFlow[list[ScanRequest]]:
        """Return requests for parts of a scan: with at most `rows` offsets each, or with about `size_bytes` bytes each; the other one is
        None.

        whole: the request of the scan. This reading must have been made from whole.sampling().
        """
        if (rows is None) == (size_bytes is None):
            raise ValueError("splits() takes either rows or bytes: how large a part may be")
        if whole.typed is not None:
            # All parts have the same schema.
            yield Compute(whole.typed.pinned, may_block=True)
        limit = positive("rows", rows) if rows is not None else positive("bytes", size_bytes)
        ranges = yield from self._scanning.settle()
        weights = dict.fromkeys(ranges, 1.0) if rows is not None else (yield from self._bytes_per_offset(ranges))
        return [whole.part(part, self._kept) for part in split_ranges(ranges, weights, limit)]

    def _bytes_per_offset(self, ranges: Mapping[TopicPartition, Range]) -> CallerFlow[dict[TopicPartition, float]]:
        """Estimate the bytes per offset of each partition from its first records; for a partition without records, from the other
        partitions.
        """
        wanted = {tp: (start, end) for tp, (start, end) in ranges.items() if start < end}
        reading = self._consuming.reading
        reading.change(lambda core, now_ms: core.assign_ranges(wanted, now_ms))
        for _ in range(SAMPLE_POLLS):
            if reading.look(lambda core: all(state.bytes_per_offset or state.finished for state in core.subscription)):
                break
            try:
                yield from reading.records(self._host.now_ms() + 1_000, 1)
            except OffsetOutOfRangeError:
                # The reader of the part reports records that are gone.
                break
        found = reading.look(lambda core: {state.tp: state.bytes_per_offset for state in core.subscription if state.bytes_per_offset})
        usual = sum(found.values()) / len(found) if found else 1.0
        return {tp: found.get(tp, usual) for tp in ranges}

    def close(self) -> CallerFlow[None]:
        """Push telemetry for the last time, and close the fetch sessions at the brokers."""
        yield from self._consuming.reporting.close(NEVER_MS)
        yield from self._consuming.reading.close()


if TYPE_CHECKING:
    from levada.config.typed import ConsumerSettings
    from levada.formats.arguments import FormatArguments

    # Only type checkers and editors read it: at run time its base class would load every setting of a consumer.
    class ScanArguments(ConsumerSettings[K, V], FormatArguments, Generic[K, V], total=False):
        """The keyword arguments of scan(): its own, those about formats, and the settings of a consumer."""

        start: Bound | Mapping[Any, Bound]
        """Where to begin: "earliest", "latest", a time (the first record at or after it), or a mapping from partition to one of these or to
        an offset. Default: "earliest".
        """
        end: Bound | Mapping[Any, Bound]
        """Where to stop, written like start; exclusive. Default: "latest"."""
        assignments: Mapping[TopicPartition, tuple[Bound, Bound]]
        """Exactly the partitions to read, with start and end each, instead of topics."""
        partitions: Iterable[int | TopicPartition] | None
        """Only these partitions of the topics; None for all."""
        keys: Iterable[bytes | str | None] | None
        """Only records with one of these keys: a str is encoded as UTF-8, None is the null key. None for all records."""
        timestamps: tuple[Bound | None, Bound | None] | None
        """Only records of a span of time: the first time, and the first that is too late; None for no limit."""
        progress: Callable[[ScanProgress], object] | None
        """Called with a ScanProgress after each step, in the thread that reads; an exception that it raises ends the scan."""
        columns: Sequence[str] | None
        """As poll_arrow() has them."""
        text: Sequence[str]
        """As poll_arrow() has them."""
        batch_rows: int
        """An Arrow batch is full with this many rows. Default: 65,536."""
        batch_bytes: int
        """An Arrow batch is full with this many bytes. Default: 16 MiB."""
        on_data_loss: Literal["raise", "skip"]
        """What to do when records between start and end are gone. Default: "raise"."""

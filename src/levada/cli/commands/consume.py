"""levada consume: print records, and follow topics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from levada.base.text import did_you_mean
from levada.cli.arguments import as_typed
from levada.cli.command import command
from levada.cli.invocation import Invocation
from levada.cli.offsets import ENDS, EVERYTHING, parse_spans
from levada.cli.positions import OffsetRange, remarks, settled
from levada.cli.records.printing import Printer, printer
from levada.cli.records.template import as_bytes, unescaped
from levada.errors import ConfigError, KafkaError
from levada.types import AnyRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer
    from levada.registry import SchemaRegistryClient

PARTS = ("key", "value")
KINDS: Mapping[str, str] = {
    "json": "JSON",
    "avro": "Avro with the id of its schema before it, which a Schema Registry has",
    "json-schema": "JSON with the id of its schema before it",
}


def deserializers(given: Sequence[str], registry: Callable[[], SchemaRegistryClient]) -> dict[str, Callable[[bytes], Any]]:
    """Read -s: `avro` is for keys and values, `value=avro` for values. Return the settings of a consumer that follow.

    registry: makes a client, which is called where one is needed. Raises ConfigError for a word that is none.
    """
    kinds: dict[str, str] = {}
    for one in given:
        part, equals, kind = one.rpartition("=")
        if equals and part not in PARTS:
            raise ConfigError(f"--schema '{one}': expected key= or value= before the kind{did_you_mean(part, PARTS)}")
        if kind not in KINDS:
            raise ConfigError(f"--schema '{one}': expected {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
        kinds |= dict.fromkeys([part] if equals else PARTS, kind)
    return {f"{part}_deserializer": _deserializer(kind, registry) for part, kind in kinds.items()}


def _deserializer(kind: str, registry: Callable[[], SchemaRegistryClient]) -> Callable[[bytes], Any]:
    if kind == "json":
        return json.loads
    if kind == "json-schema":
        from levada.registry import JSONDeserializer

        return JSONDeserializer()
    # This one needs fastavro.
    from levada.registry import AvroDeserializer

    return AvroDeserializer(registry())


Keeps = Callable[[AnyRecord], bool]
Matches = Callable[[Any], bool]


def record_filter(key: str | None, value: str | None, headers: Sequence[str]) -> Keeps | None:
    """Return what tells whether a record is kept; None where all are. A record has to pass everything that is given.

    key, value: text that has to be in it, or `/.../`, a regular expression that has to be found in it. headers: `name`, a header that has
    to be there, or `name=` and text or a regular expression for its value. Raises ConfigError for a bad expression.
    """
    tests: list[Keeps] = []
    if key is not None:
        key_matches = _matching(key)
        tests.append(lambda record: key_matches(record.key))
    if value is not None:
        value_matches = _matching(value)
        tests.append(lambda record: value_matches(record.value))
    tests += [_header_test(header) for header in headers]
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _header_test(given: str) -> Keeps:
    name, equals, wanted = given.partition("=")
    matches = _matching(wanted) if equals else (lambda value: True)
    return lambda record: any(header == name and matches(value) for header, value in record.headers)


def _matching(wanted: str) -> Matches:
    if len(wanted) >= 2 and wanted.startswith("/") and wanted.endswith("/"):
        try:
            expression = re.compile(as_typed(wanted[1:-1]))
        except re.error as fault:
            raise ConfigError(f"'{wanted}' is no regular expression: {fault}") from None
        return lambda value: value is not None and expression.search(as_bytes(value)) is not None
    text = as_typed(wanted)
    return lambda value: value is not None and text in as_bytes(value)


app = typer.Typer(help="Print records of topics, and follow them.", add_completion=False)

DELIMITER = "\\n"
POLL_S = 1.0
CLOSE_S = 5.0
"""Time that leaving a group may take after Ctrl-C or SIGTERM: somebody waits for the end, and the group may have no broker any more."""
AT_ONCE = 500
"""Records of a member that stops at the end, between two commits."""


class Wanted(NamedTuple):
    """What is to be read and printed. most: so many records are printed at most."""

    topics: tuple[str, ...]
    offset: str | None
    partitions: tuple[int, ...]
    most: int | None
    stops_at_end: bool
    group: str | None
    print: Printer
    keeps: Keeps | None
    settings: dict[str, Any]


@command(app)
def consume(
    run: Invocation,
    topics: Annotated[list[str] | None, Argument(metavar="TOPIC...", help="Topics to read.", show_default=False)] = None,
    topic: Annotated[list[str] | None, Option("-t", "--topic", help="The same, as kcat has it.")] = None,
    offset: Annotated[
        str | None,
        Option(
            "-o", "--offset", metavar="OFFSETS", help="Where to begin: start (default), end, 42, -10, -1h, @2026-11-01T10:00, or -2h..-1h."
        ),
    ] = None,
    partition: Annotated[list[int] | None, Option("-p", "--partition", help="Only this partition; may be repeated.")] = None,
    count: Annotated[int | None, Option("-c", "--count", min=1, help="Stop after so many records.")] = None,
    exit: Annotated[bool, Option("-e", "--exit", help="Stop at the end, instead of waiting for more.")] = False,
    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            help="raw, json, yaml, hex, table, or a template such as '%p@%o %k: %s\\n'. Default: that of --output, else raw.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("-J", "--json", help="The same as --format json.")] = False,
    delimiter: Annotated[str, Option("-D", "--delimiter", help="Of raw: what stands behind each record.")] = DELIMITER,
    key_delimiter: Annotated[str | None, Option("-K", "--key-delimiter", help="Of raw: print the key, and this behind it.")] = None,
    group: Annotated[str | None, Option("-G", "--group", help="Be a member of this group, and commit what was printed.")] = None,
    key: Annotated[str | None, Option("--key", help="Only records with this text in the key; /.../ is a regular expression.")] = None,
    value: Annotated[str | None, Option("--value", help="Only records with this text in the value.")] = None,
    schema: Annotated[
        list[str] | None, Option("-s", "--schema", metavar="[key=|value=]KIND", help=f"What keys and values are: {', '.join(KINDS)}.")
    ] = None,
    on_decode_error: Annotated[
        str, Option("--on-decode-error", help="With --schema, what about records that are not: raise, skip or null.")
    ] = "raise",
    header: Annotated[
        list[str] | None, Option("--header", metavar="NAME[=TEXT]", help="Only records with this header; may be repeated.")
    ] = None,
) -> None:
    """Print records of topics, and follow them until Ctrl-C; with -e or the end of a range it stops there.

    In templates %t is the topic, %p the partition, %o the offset, %T the timestamp, %k the key, %s the value, %h the headers; %K and %S are
    the sizes of key and value. In JSON the numbers NaN and infinity of a schema are text: "NaN", "Infinity", "-Infinity".
    """
    names = (*(topics or ()), *(topic or ()))
    if not names:
        raise ConfigError("name at least one topic")
    is_raw = key_delimiter is not None or delimiter != DELIMITER
    named = "json" if as_json else run.format_of_command_line
    chosen = format or named or ("raw" if is_raw else run.asked_format or "raw")
    between = None if key_delimiter is None else unescaped(key_delimiter)
    show = printer(chosen, to_terminal=run.to_terminal, delimiter=unescaped(delimiter), key_delimiter=between)
    keeps = record_filter(key, value, header or ())
    with ExitStack() as clients:
        decoding = deserializers(schema or (), lambda: clients.enter_context(run.registry(asks_twice=False)))
        settings = {**decoding, "on_decode_error": on_decode_error}
        wanted = Wanted(names, offset, tuple(partition or ()), count, exit, group, show, keeps, settings)
        (_read if group is None else _join)(run, wanted)


def _read(run: Invocation, wanted: Wanted) -> None:
    """Print records from where offsets say, without a group."""
    spans = EVERYTHING if wanted.offset is None else parse_spans(wanted.offset)
    with run.consumer(auto_offset_reset="earliest", enable_auto_commit=False, **wanted.settings) as consumer:
        ranges = settled(consumer, wanted.topics, spans, only=wanted.partitions)
        starts = {tp: max(span.start, span.log.start) for tp, span in ranges.items()}
        for tp in (tp for tp, span in ranges.items() if span.start < starts[tp]):
            run.say(f"{tp}: records before offset {starts[tp]} are gone")
        for remark in remarks(ranges, waits=not wanted.stops_at_end):
            run.say(remark)
        ends = _ends(ranges, starts, stops_at_end=wanted.stops_at_end)
        consumer.assign(ranges, ends)
        ahead = {tp: start for tp, start in starts.items() if start > ranges[tp].log.end and ends.get(tp) != start}
        for tp, start in starts.items():
            # Behind the end of a log a position is out of range, and reading would begin anew at the start.
            consumer.seek(tp, ranges[tp].log.end if tp in ahead else start)
        _print(run, wanted, _not_before(ahead, _polls(consumer, len(ranges))))


def _not_before(starts: Mapping[TopicPartition, int], batches: Iterator[Sequence[AnyRecord]]) -> Iterator[Sequence[AnyRecord]]:
    """Leave out records before where their partition begins; partitions that are not named begin anywhere."""
    if not starts:
        return batches
    return ([one for one in batch if one.offset >= starts.get(TopicPartition(one.topic, one.partition), 0)] for batch in batches)


def _ends(
    ranges: Mapping[TopicPartition, OffsetRange], starts: Mapping[TopicPartition, int], *, stops_at_end: bool
) -> dict[TopicPartition, int]:
    """Return where reading stops: what the user named, or with -e the end of the log where that comes first."""
    ends = {tp: span.there[1] if stops_at_end else span.end for tp, span in ranges.items() if span.bounded or stops_at_end}
    return {tp: max(end, starts[tp]) for tp, end in ends.items()}


def _polls(consumer: KafkaConsumer[Any, Any], partitions: int) -> Iterator[Sequence[AnyRecord]]:
    """Yield records until every partition is read to its end; without ends for ever."""
    while len(consumer.finished()) < partitions:
        yield consumer.poll(POLL_S)


def _join(run: Invocation, wanted: Wanted) -> None:
    """Print records as a member of a group, and commit them once they are printed."""
    reset = ENDS.get(wanted.offset or "start")
    if reset is None or wanted.partitions:
        raise ConfigError(
            "with --group the group knows where to begin: --offset start or end is for partitions without a commit, and no -p"
        )
    settings: dict[str, Any] = {
        "group_id": wanted.group,
        "auto_offset_reset": reset,
        "enable_auto_commit": False,
        "stop_at_end": wanted.stops_at_end,
    }
    with run.consumer(**settings, **wanted.settings) as consumer, _leaving(run, consumer, wanted.group):
        consumer.subscribe(wanted.topics)
        batches = _slices(consumer) if wanted.stops_at_end else _endless(consumer)
        for printed in _printing(run, wanted, batches):
            consumer.commit(_after(printed))


@contextmanager
def _leaving(run: Invocation, consumer: KafkaConsumer[Any, Any], group: str | None) -> Iterator[None]:
    """Leave the group soon after Ctrl-C or SIGTERM, and say so before: brokers that are gone are waited for."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        run.say(f"leaving group {group}, for up to {CLOSE_S:g} s; Ctrl-C again ends at once")
        consumer.close(CLOSE_S)
        raise


def _endless(consumer: KafkaConsumer[Any, Any]) -> Iterator[Sequence[AnyRecord]]:
    while True:
        yield consumer.poll(POLL_S)


def _slices(consumer: KafkaConsumer[Any, Any]) -> Iterator[Sequence[AnyRecord]]:
    """Yield records until the end, and those before one that does not deserialize, too."""
    some: list[AnyRecord] = []
    try:
        for record in consumer:
            some.append(record)
            if len(some) == AT_ONCE:
                yield some
                some = []
    except KafkaError:
        yield some
        raise
    yield some


def _after(records: Sequence[AnyRecord]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what is committed when these records are done."""
    return {TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1, record.leader_epoch) for record in records}


def _print(run: Invocation, wanted: Wanted, batches: Iterator[Sequence[AnyRecord]]) -> None:
    for _ in _printing(run, wanted, batches):
        pass


def _printing(run: Invocation, wanted: Wanted, batches: Iterator[Sequence[AnyRecord]]) -> Iterator[Sequence[AnyRecord]]:
    """Print what passes the filter; yield, once it is out, which records are done. Ends after the number that is wanted."""
    left = wanted.most
    show, keeps, out = wanted.print, wanted.keeps, run.out
    for records in batches:
        chosen = [record for record in records if keeps(record)] if keeps else records
        done = records
        if left is not None and len(chosen) >= left:
            chosen = chosen[:left]
            done = records[: records.index(chosen[-1]) + 1]
        out.write(b"".join(map(show, chosen)))
        out.flush()
        if done:
            yield done
        if left is not None:
            left -= len(chosen)
            if left <= 0:
                return

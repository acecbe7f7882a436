"""levada consume: print records, and follow topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

from levada.cli.arguments import SourcesIfAny, as_typed, pattern_of, schemas
from levada.cli.command import command
from levada.cli.hanging import open_transactions
from levada.cli.invocation import Invocation
from levada.cli.ledgers import sinks_of_slots
from levada.cli.offsets import ENDS, EVERYTHING, parse_spans
from levada.cli.outcomes import advising, skips_counted
from levada.cli.positions import OffsetRange, log_ends, remarks, settled, topics_of
from levada.cli.records.printing import Printer, printer
from levada.cli.records.schemas import KINDS, deserializers
from levada.cli.records.template import as_bytes, unescaped
from levada.cli.text import named
from levada.errors import ConfigError, KafkaError
from levada.types import AnyRecord, DecodedRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer

Keeps = Callable[[AnyRecord], bool]
Matches = Callable[[Any], bool]


def record_filter(key: str | None, value: str | None, headers: Sequence[str]) -> Keeps | None:
    """Return a function that tells whether a record is printed, or None if there is no filter. A record must pass all filters.

    key, value: text that the key or value must contain, or `/.../`, a regular expression that must match in it. headers: `name`, a header
    that the record must have, or `name=` followed by text or a regular expression for its value. Raises ConfigError for an invalid
    expression.
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


def _only_bad(show: Printer, keeps: Keeps | None, schema: Sequence[str]) -> tuple[Printer, Keeps, str]:
    """Return the printer, the filter and the consumer's on.decode.error for printing nothing but records that cannot be decoded.

    Raises ConfigError without a schema.
    """
    if not schema:
        raise ConfigError("--on-decode-error only needs --schema, the format that records should have")
    return _of_bytes(show), _bad(keeps), "null"


def _bad(keeps: Keeps | None) -> Keeps:
    """Return a filter for the records that could not be decoded and pass another filter, which sees their bytes."""
    return lambda record: record.decode_error is not None and (keeps is None or keeps(record.decode_error.record))


def _of_bytes(show: Printer) -> Printer:
    """Return a printer for records that could not be decoded: it prints their bytes, and %e is the reason."""

    def shown(record: AnyRecord) -> bytes:
        error = record.decode_error
        assert error is not None
        return show(DecodedRecord.of(error.record, error.record.key, error.record.value, error))

    return shown


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
ADVICE = "--on-decode-error skip leaves such records out, and only prints nothing but them"
ONLY = "only"
"""The value of --on-decode-error for printing nothing but the records that cannot be decoded."""
OnDecodeErrorOrOnly = Annotated[
    str,
    Option(
        "--on-decode-error",
        help="With --schema, for records in another format: raise, skip, null, or only, which prints nothing but these, as they are.",
    ),
]
POLL_S = 1.0
CLOSE_S = 5.0
"""Time limit in seconds for leaving a group after Ctrl-C or SIGTERM, because the group's coordinator may be down."""
AT_ONCE = 500
"""Most records between two commits, for a group member that stops at the end."""


class Wanted(NamedTuple):
    """The records to read, and how to print them. most: maximum number of records to print, or None."""

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
    topics: SourcesIfAny = None,
    topic: Annotated[list[str] | None, Option("-t", "--topic", help="The same as TOPIC, like in kcat.")] = None,
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            metavar="OFFSETS",
            help="Begin here: start (default), end, 42, -10, -1h, @2026-11-01T10:00; or a range: -2h..-1h.",
        ),
    ] = None,
    partition: Annotated[list[int] | None, Option("-p", "--partition", help="Only this partition; repeat it for more.")] = None,
    count: Annotated[int | None, Option("-c", "--count", min=1, help="Stop after this number of records.")] = None,
    exit: Annotated[bool, Option("-e", "--exit", help="Stop at the end of the topics, instead of waiting for new records.")] = False,
    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            help="raw, json, yaml, hex, table, or a template such as '%p@%o %k: %s\\n'. Default: the format of --output, else raw.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("-J", "--json", help="The same as --format json.")] = False,
    delimiter: Annotated[str, Option("-D", "--delimiter", help="For raw: print this after each record.")] = DELIMITER,
    key_delimiter: Annotated[str | None, Option("-K", "--key-delimiter", help="For raw: print the key and this before the value.")] = None,
    group: Annotated[str | None, Option("-G", "--group", help="Join this group, and commit the offsets of printed records.")] = None,
    key: Annotated[str | None, Option("--key", help="Only records with this text in the key; /.../ is a regular expression.")] = None,
    value: Annotated[str | None, Option("--value", help="Only records with this text in the value.")] = None,
    schema: Annotated[list[str] | None, schemas(f"Format of keys and values: {', '.join(KINDS)}.")] = None,
    on_decode_error: OnDecodeErrorOrOnly = "raise",
    header: Annotated[
        list[str] | None, Option("--header", metavar="NAME[=TEXT]", help="Only records with this header; repeat it for more.")
    ] = None,
) -> None:
    """Print records of topics, and follow them until Ctrl-C. With -e, or with a range that has an end, stop there.

    In templates %t is the topic, %p the partition, %o the offset, %T the timestamp, %k the key, %s the value and %h the headers; %K and %S
    are the sizes of key and value, and %e is the error of decoding. JSON shows NaN and infinity as text: "NaN", "Infinity", "-Infinity".
    """
    names = (*(topics or ()), *(topic or ()))
    if not names:
        raise ConfigError("name at least one topic")
    is_raw = key_delimiter is not None or delimiter != DELIMITER
    asked = "json" if as_json else run.format_of_command_line
    chosen = format or asked or ("raw" if is_raw else run.asked_format or "raw")
    between = None if key_delimiter is None else unescaped(key_delimiter)
    show = printer(chosen, to_terminal=run.to_terminal, delimiter=unescaped(delimiter), key_delimiter=between)
    keeps = record_filter(key, value, header or ())
    if on_decode_error == ONLY:
        show, keeps, on_decode_error = _only_bad(show, keeps, schema or ())
    with skips_counted(run), advising(ADVICE), ExitStack() as clients:
        decoding = deserializers(schema or (), lambda: clients.enter_context(run.registry(asks_twice=False)))
        settings = {**decoding, "on_decode_error": on_decode_error}
        wanted = Wanted(names, offset, tuple(partition or ()), count, exit, group, show, keeps, settings)
        (_read if group is None else _join)(run, wanted)


def _read(run: Invocation, wanted: Wanted) -> None:
    """Print the records of the wanted offsets, without a group."""
    spans = EVERYTHING if wanted.offset is None else parse_spans(wanted.offset)
    with run.consumer(auto_offset_reset="earliest", enable_auto_commit=False, **wanted.settings) as consumer:
        ranges = settled(consumer, topics_of(consumer, wanted.topics), spans, only=wanted.partitions)
        starts = {tp: max(span.start, span.log.start) for tp, span in ranges.items()}
        for tp in (tp for tp, span in ranges.items() if span.start < starts[tp]):
            run.say(f"{tp}: records before offset {starts[tp]} are gone")
        blocked = _blocked(run, consumer, ranges)
        if blocked:
            where = [f"{tp} (from offset {stable}, the log ends at {end})" for tp, (stable, end) in sorted(blocked.items())]
            run.say(f"isolation.level=read_committed: records of open transactions, and all after them, are not read: {named(where)}")
            run.say(_ending(run, blocked))
        else:
            for remark in remarks(ranges, waits=not wanted.stops_at_end):
                run.say(remark)
        ends = _ends(ranges, starts, stops_at_end=wanted.stops_at_end)
        consumer.assign(ranges, ends)
        ahead = {tp: start for tp, start in starts.items() if start > ranges[tp].log.end and ends.get(tp) != start}
        for tp, start in starts.items():
            # A position behind the end of the log is out of range, and the consumer would reset it to the start.
            consumer.seek(tp, ranges[tp].log.end if tp in ahead else start)
        _print(run, wanted, _not_before(ahead, _polls(consumer, len(ranges))))


def _blocked(
    run: Invocation, consumer: KafkaConsumer[Any, Any], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the partitions with an open transaction, if the consumer has isolation.level=read_committed; otherwise {}.

    The values are the offset of the transaction's first record, and the end of the log.
    """
    from levada.config import ConsumerConfig

    if ConsumerConfig.parse(run.client_settings(ConsumerConfig)).isolation_level != "read_committed":
        return {}
    with run.admin() as admin:
        ends = log_ends(admin, partitions)
    # Asked after the ends of the logs. In the other order, records written in between would look like an open transaction.
    stable = consumer.end_offsets(partitions)
    return {tp: (stable[tp], at.end) for tp, at in ends.items() if stable[tp] < at.end}


def _ending(run: Invocation, blocked: Collection[TopicPartition]) -> str:
    """Return a text about what ends the open transactions in these partitions."""
    with run.admin() as admin:
        try:
            opened = open_transactions(admin)
            ids = sorted(name for name, found in opened.items() if not set(found.partitions).isdisjoint(blocked))
            sinks = sorted(set(sinks_of_slots(admin, ids).values()))
        except KafkaError as error:
            return f"which transactions these are is unknown: {error}"
    if not ids:
        topic = min(blocked).topic
        return f"no coordinator names a transaction that is open there; `levada transactions find-hanging -t {topic}` looks for it"
    if sinks:
        end = f"start its query again, or `levada spark transactions abort {sinks[0]}`"
        return f"open there: {named(ids)}. An exactly-once Spark sink has opened transactions there, {named(sinks)}: {end}"
    return f"open there: {named(ids)}; `levada transactions abort {ids[0]}` ends a transaction, and fences its producer"


def _not_before(starts: Mapping[TopicPartition, int], batches: Iterator[Sequence[AnyRecord]]) -> Iterator[Sequence[AnyRecord]]:
    """Leave out records before the start offset of their partition. Partitions without a start keep all records."""
    if not starts:
        return batches
    return ([one for one in batch if one.offset >= starts.get(TopicPartition(one.topic, one.partition), 0)] for batch in batches)


def _ends(
    ranges: Mapping[TopicPartition, OffsetRange], starts: Mapping[TopicPartition, int], *, stops_at_end: bool
) -> dict[TopicPartition, int]:
    """Return the end offsets of reading: the ends that the user named; with stops_at_end at most the end of the log."""
    ends = {tp: span.there[1] if stops_at_end else span.end for tp, span in ranges.items() if span.bounded or stops_at_end}
    return {tp: max(end, starts[tp]) for tp, end in ends.items()}


def _polls(consumer: KafkaConsumer[Any, Any], partitions: int) -> Iterator[Sequence[AnyRecord]]:
    """Yield records until all partitions are read to their end offsets. Without end offsets, never stop."""
    while len(consumer.finished()) < partitions:
        yield consumer.poll(POLL_S)


def _join(run: Invocation, wanted: Wanted) -> None:
    """Print records as a member of a group, and commit their offsets after they are printed."""
    reset = ENDS.get(wanted.offset or "start")
    if reset is None or wanted.partitions:
        raise ConfigError(
            "with --group, reading begins at the committed offsets: --offset can only be start or end, for partitions without a committed "
            "offset, and -p is not possible"
        )
    settings: dict[str, Any] = {
        "group_id": wanted.group,
        "auto_offset_reset": reset,
        "enable_auto_commit": False,
        "stop_at_end": wanted.stops_at_end,
    }
    with run.consumer(**settings, **wanted.settings) as consumer, _leaving(run, consumer, wanted.group):
        _subscribe(consumer, wanted.topics)
        batches = _slices(consumer) if wanted.stops_at_end else _endless(consumer)
        is_new = False
        for printed in _printing(run, wanted, batches):
            consumer.commit(_after(printed))
            is_new = True
        if not is_new:
            where = named([str(tp) for tp in sorted(consumer.assignment())])
            run.say(
                f"nothing new for group {wanted.group} in {where}"
                if where
                else f"other members of group {wanted.group} have all partitions"
            )


def _subscribe(consumer: KafkaConsumer[Any, Any], topics: Sequence[str]) -> None:
    patterns = [pattern_of(topic) for topic in topics]
    if any(patterns):
        # A consumer subscribes to names or to one expression.
        either = (
            re.escape(topic) if pattern is None else f"(?:{pattern.pattern})" for topic, pattern in zip(topics, patterns, strict=True)
        )
        consumer.subscribe(pattern="|".join(either))
    else:
        consumer.subscribe(topics)


@contextmanager
def _leaving(run: Invocation, consumer: KafkaConsumer[Any, Any], group: str | None) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, print a message and leave the group within CLOSE_S. Leaving takes that long if brokers are down."""
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
    """Yield lists of records until the end. On an error, for example in decoding a record, yield the records before it, then raise it."""
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
    """Return the offsets to commit after these records."""
    return {TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1, record.leader_epoch) for record in records}


def _print(run: Invocation, wanted: Wanted, batches: Iterator[Sequence[AnyRecord]]) -> None:
    for _ in _printing(run, wanted, batches):
        pass


def _printing(run: Invocation, wanted: Wanted, batches: Iterator[Sequence[AnyRecord]]) -> Iterator[Sequence[AnyRecord]]:
    """Print the records that pass the filter. After each write, yield the records that were printed or filtered out.

    Stop after the wanted number.
    """
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

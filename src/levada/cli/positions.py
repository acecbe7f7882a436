"""Turns positions on the command line into offsets. Asks the brokers for start and end offsets, and for the offsets of timestamps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from levada import KafkaAdmin, KafkaError, OffsetSpec, PartitionInfo
from levada.base.clock import SystemClock
from levada.cli.arguments import check_partitions, pattern_of
from levada.cli.exits import CommandError
from levada.cli.invocation import Invocation
from levada.cli.lag import LogEnds
from levada.cli.offsets import Log, Position, Span, Spans, is_reversed, parse_spans, settle, time_ms
from levada.cli.text import named
from levada.errors import ConfigError, UnknownTopicOrPartitionError
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer


class OffsetRange(NamedTuple):
    """Offsets of a partition, from start up to, not including, end.

    bounded: whether the user named an end. log: the current start and end of the log. is_to_come: whether start is the end of the log
    because the user gave a time in the future.
    """

    start: int
    end: int
    bounded: bool
    log: Log
    is_to_come: bool = False

    @property
    def there(self) -> tuple[int, int]:
        """The offsets (start, end) of the range, up to the end of the log; (start, start) if the range begins behind that.

        Offsets before the start of the log are kept, so that their loss is noticed.
        """
        end = min(self.end, self.log.end)
        return self.start, max(self.start, end)


def settled(
    consumer: KafkaConsumer[Any, Any],
    topics: Iterable[str],
    spans: Spans,
    *,
    only: Iterable[int] = (),
    start: Position = "earliest",
    end: Position = "latest",
) -> dict[TopicPartition, OffsetRange]:
    """Ask the brokers for the offsets of the spans, and return the range of each partition of the topics.

    only: the partitions to include; default: all, or only those that spans name if spans say nothing about others. start, end: positions
    for the sides that spans leave out. Raises ConfigError for a partition that a topic does not have.
    """
    now_ms = SystemClock().wall_ms()
    partitions = [tp for topic in topics for tp in _partitions(consumer, topic, _wanted(spans, only))]
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    logs = {tp: Log(starts[tp], ends[tp]) for tp in partitions}
    begins = {tp: _or(spans.of(tp.partition).start, start) for tp in partitions}
    firsts = _offsets(consumer, begins, logs, now_ms)
    lasts = _offsets(consumer, {tp: _or(spans.of(tp.partition).end, end) for tp in partitions}, logs, now_ms)

    def is_to_come(tp: TopicPartition) -> bool:
        # If a record has a timestamp in the future, firsts is its offset, and the position exists already.
        ms = time_ms(begins[tp], now_ms)
        return ms is not None and ms > now_ms and firsts[tp] >= logs[tp].end

    return {tp: OffsetRange(firsts[tp], lasts[tp], spans.of(tp.partition).end is not None, logs[tp], is_to_come(tp)) for tp in partitions}


def remarks(ranges: Mapping[TopicPartition, OffsetRange], *, waits: bool) -> list[str]:
    """Return messages about ranges that end before they begin, reach behind the end of their log, or begin at a time in the future.

    If there are none of these and no range has records, one message says that. waits: whether records that come later are read too.
    """
    empty, ahead, short = [], [], []
    to_come: list[str] = []
    followed: list[str] = []
    for tp, (start, end, bounded, log, is_to_come) in ranges.items():
        if is_to_come:
            (followed if waits and not bounded else to_come).append(f"{tp} (the log ends at {log.end})")
        elif start > log.end:
            ahead.append(f"{tp} (from {start}, the log ends at {log.end})")
        elif bounded and end < start:
            empty.append(f"{tp} (from {start} to {end})")
        elif bounded and end > log.end:
            short.append(f"{tp} (to {end}, the log ends at {log.end})")
    told = [
        ("the range ends before it begins, so nothing is read", empty),
        (f"the range begins behind the end of the log, so {'its first record is waited for' if waits else 'nothing is read'}", ahead),
        ("the range begins at a time to come, so nothing is read", to_come),
        ("the range begins at a time to come, so all new records are read, whatever their timestamps", followed),
        (f"the range ends behind the end of the log, so {'more records are waited for' if waits else 'only what is there is read'}", short),
    ]
    found = [f"{what}: {named(where)}" for what, where in told if where]
    if not found and all(span.there[0] >= span.there[1] and (span.bounded or not waits) for span in ranges.values()):
        what = "there are no records in the range" if any(span.log.start < span.log.end for span in ranges.values()) else "the log is empty"
        found.append(f"{what}, so nothing is read: {named([str(tp) for tp in ranges])}")
    return found


def _or(position: Position | None, default: Position) -> Position:
    # Not `position or default`: offset 0 is a position, too.
    return default if position is None else position


def _wanted(spans: Spans, only: Iterable[int]) -> frozenset[int]:
    chosen = frozenset(only)
    if chosen or any(bound is not None for bound in spans.others):
        return chosen
    return frozenset(spans.partitions)


def topics_of(consumer: KafkaConsumer[Any, Any], names: Iterable[str]) -> list[str]:
    """Return the topics, with each /.../ replaced by the topics whose whole name matches it.

    Topics that begin with __ are Kafka's own, and only match an expression that has __ in it. Raises ConfigError for an invalid expression,
    and CommandError if no topic matches.
    """
    there: list[str] | None = None
    found: dict[str, None] = {}
    for name in names:
        if (expression := pattern_of(name)) is None:
            found[name] = None
            continue
        if there is None:
            there = sorted(consumer.list_topics())
        matches = [topic for topic in there if expression.fullmatch(topic) and ("__" in name or not topic.startswith("__"))]
        if not matches:
            raise CommandError(f"no topic matches {name}")
        found |= dict.fromkeys(matches)
    return list(found)


def _partitions(consumer: KafkaConsumer[Any, Any], topic: str, wanted: frozenset[int]) -> list[TopicPartition]:
    there = sorted(info.partition for info in consumer.partitions_for(topic))
    check_partitions(topic, wanted, there)
    return [TopicPartition(topic, partition) for partition in there if not wanted or partition in wanted]


def _offsets(
    consumer: KafkaConsumer[Any, Any], positions: Mapping[TopicPartition, Position], logs: Mapping[TopicPartition, Log], now_ms: int
) -> dict[TopicPartition, int]:
    times = {tp: ms for tp, position in positions.items() if (ms := time_ms(position, now_ms)) is not None}
    found = consumer.offsets_for_times(times) if times else {}
    at_times = {tp: None if at is None else at.offset for tp, at in found.items()}
    return {tp: settle(position, logs[tp], at_times.get(tp)) for tp, position in positions.items()}


T = TypeVar("T")


def log_ends(admin: KafkaAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogEnds]:
    """Return the start and end offsets of partitions. Partitions that were deleted or have no leader are left out."""
    described = admin.outcomes(admin.describe_topics, sorted({tp.topic for tp in partitions}))
    infos = [info for found in described.values() if (known := _unless_gone(found)) is not None for info in known.partitions]
    wanted = set(partitions)
    return ends_at_leaders(admin, [info for info in infos if TopicPartition(info.topic, info.partition) in wanted])


def ends_at_leaders(admin: KafkaAdmin, infos: Iterable[PartitionInfo]) -> dict[TopicPartition, LogEnds]:
    """Return the start and end offsets of partitions. Partitions without a leader, or that were deleted meanwhile, are left out."""
    led = [TopicPartition(info.topic, info.partition) for info in infos if info.leader >= 0]
    starts, ends = _listed(admin, led, OffsetSpec.EARLIEST), _listed(admin, led, OffsetSpec.LATEST)
    return {tp: LogEnds(starts[tp], ends[tp]) for tp in led if tp in starts and tp in ends}


def _listed(admin: KafkaAdmin, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    outcomes = admin.outcomes(admin.list_offsets, dict.fromkeys(partitions, spec))
    return {tp: at.offset for tp, found in outcomes.items() if (at := _unless_gone(found)) is not None}


def _unless_gone(found: T | KafkaError) -> T | None:
    """Return a result, or None if the topic or partition does not exist. Raises any other error."""
    if isinstance(found, UnknownTopicOrPartitionError):
        return None
    if isinstance(found, KafkaError):
        raise found
    return found


POSITIONS = "start, end, 42, -1000, +5, -1h, @2026-11-01T10:00; or one partition's, such as 0:42"


def parse_positions(text: str) -> Spans:
    """Parse one position, or several for different partitions. Raises ConfigError, also for a range."""
    spans = parse_spans(text)
    if any(span.end is not None for span in (spans.others, *spans.partitions.values())):
        raise ConfigError(f"offsets '{text}': a range is not possible here; expected {POSITIONS}")
    return spans


def offsets_at(
    invocation: Invocation, spans: Spans, partitions: Iterable[TopicPartition], *, outside: str = ""
) -> dict[TopicPartition, int]:
    """Return the offset at the position of each partition. Partitions without a position are left out.

    outside: message for partitions whose log does not have the position, printed with the names and logs of these; "" prints nothing.
    Raises ConfigError if spans name a partition that is not among the partitions.
    """
    there = sorted(set(partitions))
    _check_named(spans, there)
    meant = [tp for tp in there if spans.of(tp.partition).start is not None]
    by_topic: dict[str, list[int]] = {}
    for tp in meant:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    with invocation.consumer() as consumer:
        found = {tp: at for topic, indexes in by_topic.items() for tp, at in settled(consumer, [topic], spans, only=indexes).items()}
    if (
        missed := [f"{tp} ({at.start}, the log is from {at.log.start} to {at.log.end})" for tp, at in found.items() if not _has(at)]
    ) and outside:
        invocation.say(f"{outside}: {named(missed)}")
    return {tp: at.start for tp, at in found.items()}


def _has(at: OffsetRange) -> bool:
    return at.log.start <= at.start <= at.log.end


def offsets_between(invocation: Invocation, first: Spans, last: Spans, tp: TopicPartition) -> tuple[int, int]:
    """Return the offsets for two positions of a partition: those of the options --from and --to. Prints the remarks().

    Raises ConfigError if a position names another partition, or if the second position is before the first in every log. If that depends
    on the log, the second offset may be less than the first.
    """
    for spans in (first, last):
        _check_named(spans, [tp])
    meant = Span(first.of(tp.partition).start, last.of(tp.partition).start)
    if is_reversed(meant):
        raise ConfigError("--to is before --from, so there is nothing between them")
    with invocation.consumer() as consumer:
        found = settled(consumer, [tp.topic], Spans(Span(None, None), {tp.partition: meant}))[tp]
    for remark in remarks({tp: found}, waits=False):
        invocation.say(remark)
    return found.start, found.end


def _check_named(spans: Spans, there: Sequence[TopicPartition]) -> None:
    if missing := sorted(spans.partitions.keys() - {tp.partition for tp in there}):
        raise ConfigError(f"partition {missing[0]} is not among {', '.join(map(str, there)) or 'those that have a leader'}")

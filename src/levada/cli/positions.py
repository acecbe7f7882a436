"""From positions as the command line spells them to offsets, with one client that asks the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from levada.base.clock import SystemClock
from levada.cli.offsets import Log, Position, Spans, settle, time_ms
from levada.cli.partitions import check_partitions
from levada.cli.text import named
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer


class OffsetRange(NamedTuple):
    """Offsets of a partition, from start up to, not including, end.

    bounded: whether the user named an end. log: what is there now. is_to_come: whether start is the end of the log because it was
    given as a time to come.
    """

    start: int
    end: int
    bounded: bool
    log: Log
    is_to_come: bool = False

    @property
    def there(self) -> tuple[int, int]:
        """The range without what is behind the end of the log; what is before its start stays, so that its loss is noticed."""
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
    """Find out the offsets that spans mean, once, for every partition of topics.

    only: these partitions; default: all, or those that spans name where they say nothing of others. start, end: where spans leave it out.
    Raises ConfigError for a partition that a topic does not have.
    """
    now_ms = SystemClock().wall_ms()
    partitions = [tp for topic in topics for tp in _partitions(consumer, topic, _wanted(spans, only))]
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    logs = {tp: Log(starts[tp], ends[tp]) for tp in partitions}
    begins = {tp: _or(spans.of(tp.partition).start, start) for tp in partitions}
    firsts = _offsets(consumer, begins, logs, now_ms)
    lasts = _offsets(consumer, {tp: _or(spans.of(tp.partition).end, end) for tp in partitions}, logs, now_ms)

    def is_to_come(tp: TopicPartition) -> bool:
        # Records may have times to come as well.
        ms = time_ms(begins[tp], now_ms)
        return ms is not None and ms > now_ms and firsts[tp] >= logs[tp].end

    return {tp: OffsetRange(firsts[tp], lasts[tp], spans.of(tp.partition).end is not None, logs[tp], is_to_come(tp)) for tp in partitions}


def remarks(ranges: Mapping[TopicPartition, OffsetRange], *, waits: bool) -> list[str]:
    """Return what the user has to be told: of which ranges nothing, or not all, is there. waits: whether what comes later is read, too."""
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
        ("the range begins at a time to come, so new records are read, of whatever time they are", followed),
        (f"the range ends behind the end of the log, so {'more records are waited for' if waits else 'only what is there is read'}", short),
    ]
    return [f"{what}: {named(where)}" for what, where in told if where]


def _or(position: Position | None, default: Position) -> Position:
    # Offset 0 is a position.
    return default if position is None else position


def _wanted(spans: Spans, only: Iterable[int]) -> frozenset[int]:
    chosen = frozenset(only)
    if chosen or any(bound is not None for bound in spans.others):
        return chosen
    return frozenset(spans.partitions)


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

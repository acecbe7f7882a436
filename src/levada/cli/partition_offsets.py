"""The offset at a position of partitions, for commands that take one position and no range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levada.cli.invocation import Invocation
from levada.cli.offsets import Span, Spans, is_reversed, parse_spans
from levada.cli.positions import remarks, settled
from levada.errors import ConfigError
from levada.types import TopicPartition

POSITIONS = "start, end, 42, -1000, +5, -1h, @2026-11-01T10:00; or one partition's, such as 0:42"


def parse_positions(text: str) -> Spans:
    """Read a position, or several, each of one partition. Raises ConfigError, for a range too."""
    spans = parse_spans(text)
    if any(span.end is not None for span in (spans.others, *spans.partitions.values())):
        raise ConfigError(f"offsets '{text}': a position is wanted here and not a range; expected {POSITIONS}")
    return spans


def offsets_at(invocation: Invocation, spans: Spans, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset of each of these partitions about which the positions say something.

    Raises ConfigError for a position of a partition that is not among them.
    """
    there = sorted(set(partitions))
    _check_named(spans, there)
    meant = [tp for tp in there if spans.of(tp.partition).start is not None]
    by_topic: dict[str, list[int]] = {}
    for tp in meant:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    with invocation.consumer() as consumer:
        found = {tp: at for topic, indexes in by_topic.items() for tp, at in settled(consumer, [topic], spans, only=indexes).items()}
    return {tp: at.start for tp, at in found.items()}


def offsets_between(invocation: Invocation, first: Spans, last: Spans, tp: TopicPartition) -> tuple[int, int]:
    """Return the offsets at two positions of a partition.

    Raises ConfigError for a position of another partition.
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

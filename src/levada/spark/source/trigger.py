"""What one trigger decides from what Kafka says: which records are gone, and how far the next micro-batch goes. No Spark, no network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from levada.spark.source.offsets import Offsets
from levada.types import TopicPartition


class Losses(NamedTuple):
    """Partitions of which records were read, or were to be read, that are not there any more.

    gone: they do not exist. remade: their topic is another one of the same name. shorter: the log ends before the offset that was reached,
    because a new leader lacks its end.
    """

    gone: list[TopicPartition]
    remade: list[TopicPartition]
    shorter: list[TopicPartition]

    def __bool__(self) -> bool:
        return bool(self.gone or self.remade or self.shorter)


def losses(reached: Offsets, latest: Offsets, *, remade_topics: Collection[str], same_topics: Collection[str]) -> Losses:
    """Compare the offsets that a query has reached with the ends of the logs.

    remade_topics: those whose id has changed since. same_topics: those whose id is known not to have. Where it is not known, as after a
    restart, a log that is shorter than before counts as a new one.
    """
    remade, shorter = [], []
    for tp in sorted(reached.keys() & latest.keys()):
        if tp.topic in remade_topics or (latest[tp] < reached[tp] and tp.topic not in same_topics):
            remade.append(tp)
        elif latest[tp] < reached[tp]:
            shorter.append(tp)
    return Losses(sorted(reached.keys() - latest.keys()), remade, shorter)


def findings(lost: Losses, reached: Offsets, latest: Offsets, *, is_start: bool = False) -> list[str]:
    """Say what is lost, a sentence for each partition. is_start: nothing was read yet, and the options named these offsets."""
    if is_start:
        return [
            f"{tp} is to be read from offset {reached[tp]}, but {f'ends at {latest[tp]}' if tp in latest else 'does not exist any more'}"
            for tp in sorted([*lost.gone, *lost.remade, *lost.shorter])
        ]
    gone = [f"{tp} was read up to offset {reached[tp]} and does not exist any more" for tp in lost.gone]
    remade = [
        f"{tp} ends at offset {latest[tp]}, but was read up to {reached[tp]}: the topic was probably deleted and created again"
        if latest[tp] < reached[tp]
        else f"{tp} was read up to offset {reached[tp]}, and its topic was deleted and created again since"
        for tp in lost.remade
    ]
    shorter = [
        f"{tp} ends at offset {latest[tp]}, but was read up to {reached[tp]}: a new leader does not have what came after"
        for tp in lost.shorter
    ]
    return gone + remade + shorter


def deselected(kept: Offsets) -> list[str]:
    """Say which partitions a query has read that its options do not name any more."""
    return [
        f"{tp} was read up to offset {offset}, and the options of the query do not select it any more"
        for tp, offset in sorted(kept.items())
    ]


def backwards(start: Offsets, end: Offsets) -> list[str]:
    """Say which partitions of a micro-batch end before they start: nothing is read of them, and something was lost."""
    return [
        f"{tp} is to be read from offset {start[tp]}, but the micro-batch ends at {end[tp]}"
        for tp in sorted(start.keys() & end.keys())
        if end[tp] < start[tp]
    ]


def lost_beginnings(earliest_of_new: Offsets) -> list[str]:
    """Say which partitions, first seen now, have already lost records that the query never saw."""
    return [
        f"{tp} is new to this query, but begins at offset {offset}: the records before are gone already"
        for tp, offset in sorted(earliest_of_new.items())
        if offset != 0
    ]


def limit_rows(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Shorten the way from start to end to about `most` offsets, in proportion to each partition's backlog.

    A share below one is rounded up, so that a small partition is not starved beside a large one; other shares are rounded down. The total
    can therefore miss `most` by less than the number of partitions, as in Spark's own connector.
    """
    total = backlog(start, end)
    if total <= most:
        return dict(end)
    return {tp: start[tp] + max(1, most * (end[tp] - start[tp]) // total) if end[tp] > start[tp] else end[tp] for tp in end}


def backlog(start: Offsets, end: Offsets) -> int:
    """Return how many offsets lie between two offsets."""
    return sum(max(end[tp] - start[tp], 0) for tp in end)


class TopicIds:
    """The ids of the topics that a query reads, as far as this run has seen them."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}

    def compare(self, now: Mapping[str, object], topics: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return which topics have another id than before, and which are known to have the same."""
        seen = {topic for topic in topics if self._known.get(topic) is not None and now.get(topic) is not None}
        remade = {topic for topic in seen if now[topic] != self._known[topic]}
        return remade, seen - remade

    def learn(self, now: Mapping[str, object]) -> None:
        """Take these for the ids from now on."""
        self._known.update(now)

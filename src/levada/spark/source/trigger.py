"""The decisions of one trigger: which records are lost, and where the next micro-batch ends. Functions of Kafka's answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from levada.spark.source.offsets import Offsets
from levada.types import TopicPartition


class Losses(NamedTuple):
    """Partitions that lost records which the query has read, or was going to read.

    gone: the partition does not exist any more. remade: the topic was deleted and created again under the same name. shorter: the log ends
    before the offset that the query has reached, because a new leader lacks the last records.
    """

    gone: list[TopicPartition]
    remade: list[TopicPartition]
    shorter: list[TopicPartition]

    def __bool__(self) -> bool:
        return bool(self.gone or self.remade or self.shorter)


def losses(reached: Offsets, latest: Offsets, *, remade_topics: Collection[str], same_topics: Collection[str]) -> Losses:
    """Compare the offsets that a query has reached with the ends of the logs.

    remade_topics: topics whose id has changed. same_topics: topics whose id is known to be unchanged. For other topics, for example after
    a restart, a log that is shorter than before counts as the log of a new topic.
    """
    remade, shorter = [], []
    for tp in sorted(reached.keys() & latest.keys()):
        if tp.topic in remade_topics or (latest[tp] < reached[tp] and tp.topic not in same_topics):
            remade.append(tp)
        elif latest[tp] < reached[tp]:
            shorter.append(tp)
    return Losses(sorted(reached.keys() - latest.keys()), remade, shorter)


def findings(lost: Losses, reached: Offsets, latest: Offsets, *, is_start: bool = False) -> list[str]:
    """Describe lost records, in a sentence for each partition.

    reached: the offsets up to which the query has read. latest: the end offsets of now; a deleted partition is missing. is_start: whether
    the query has read nothing yet, so that `reached` has its start offsets.
    """
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
        f"{tp} ends at offset {latest[tp]}, but was read up to {reached[tp]}: a new leader does not have the later records"
        for tp in lost.shorter
    ]
    return gone + remade + shorter


def deselected(kept: Offsets) -> list[str]:
    """Describe partitions that the query has read and that its options do not select any more, in a sentence for each."""
    return [
        f"{tp} was read up to offset {offset}, and the options of the query do not select it any more"
        for tp, offset in sorted(kept.items())
    ]


def backwards(start: Offsets, end: Offsets) -> list[str]:
    """Describe partitions whose end in a micro-batch is before their start: nothing is read there, and records were lost."""
    return [
        f"{tp} is to be read from offset {start[tp]}, but the micro-batch ends at {end[tp]}"
        for tp in sorted(start.keys() & end.keys())
        if end[tp] < start[tp]
    ]


def lost_beginnings(earliest_of_new: Offsets) -> list[str]:
    """Describe new partitions whose log does not begin at offset 0: the query can never read their first records."""
    return [
        f"{tp} is new to this query, but begins at offset {offset}: earlier records are gone already"
        for tp, offset in sorted(earliest_of_new.items())
        if offset != 0
    ]


def limit_rows(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return end offsets with which about `most` offsets are read. Each partition gets a share in proportion to its backlog.

    A share below one is rounded up, so that a small partition is not starved by a large one; other shares are rounded down. The total
    can therefore differ from `most` by less than the number of partitions, like in Spark's own connector.
    """
    total = backlog(start, end)
    if total <= most:
        return dict(end)
    return {tp: start[tp] + max(1, most * (end[tp] - start[tp]) // total) if end[tp] > start[tp] else end[tp] for tp in end}


def backlog(start: Offsets, end: Offsets) -> int:
    """Return the number of unread offsets between start and end, of all partitions together."""
    return sum(max(end[tp] - start[tp], 0) for tp in end)


class TopicIds:
    """The ids of the topics that a query reads, as this run of the query last saw them."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}

    def compare(self, now: Mapping[str, object], topics: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return which of `topics` have changed their id, and which are known to have the same id. now: the current ids.

        A topic without an id before or now is in neither set.
        """
        seen = {topic for topic in topics if self._known.get(topic) is not None and now.get(topic) is not None}
        remade = {topic for topic in seen if now[topic] != self._known[topic]}
        return remade, seen - remade

    def learn(self, now: Mapping[str, object]) -> None:
        """Remember the current ids for the next compare()."""
        self._known.update(now)

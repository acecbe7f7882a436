"""Computes the rates that `levada top` shows, from two snapshots of a cluster. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from levada import ClusterDescription, GroupState, PartitionInfo, TopicPartition
from levada.cli.group_views import GroupView
from levada.cli.lag import LogEnds, total


class Look(NamedTuple):
    """A snapshot of a cluster. taken_s: its time by a monotonic clock, in seconds. faults: errors of requests for parts of it."""

    taken_s: float
    cluster: ClusterDescription
    partitions: tuple[PartitionInfo, ...]
    ends: Mapping[TopicPartition, LogEnds]
    groups: Mapping[str, GroupView]
    faults: tuple[str, ...] = ()


class BrokerRow(NamedTuple):
    """A broker. leaders: number of partitions that it leads. replicas, out_of_sync: number of its replicas, and of those not in sync."""

    broker: int
    address: str
    controller: bool
    leaders: int
    replicas: int
    out_of_sync: int


class TopicRow(NamedTuple):
    """A topic. records: offsets between the starts and ends of its logs. per_second: growth of the end offsets; None in the first frame."""

    topic: str
    partitions: int
    without_leader: int
    records: int
    per_second: float | None


class GroupRow(NamedTuple):
    """A group. lag: in offsets. per_second: growth of its committed offsets. seconds_behind: lag / per_second, None without growth."""

    group: str
    state: GroupState
    members: int
    lag: int
    per_second: float | None
    seconds_behind: float | None


class Frame(NamedTuple):
    """The content of one screen. Topics are sorted by rate and groups by lag, the largest first."""

    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    groups: tuple[GroupRow, ...]
    faults: tuple[str, ...]


def frame(before: Look | None, now: Look) -> Frame:
    """Return the frame for a snapshot. before: the snapshot before it, for the rates, or None."""
    passed_s = 0.0 if before is None else now.taken_s - before.taken_s
    by_topic: dict[str, list[PartitionInfo]] = {}
    for info in now.partitions:
        by_topic.setdefault(info.topic, []).append(info)
    topics = [_topic(name, infos, before, now, passed_s) for name, infos in sorted(by_topic.items())]
    groups = [_group(view, None if before is None else before.groups.get(name), passed_s) for name, view in sorted(now.groups.items())]
    return Frame(
        tuple(_brokers(now)),
        tuple(sorted(topics, key=lambda row: -(row.per_second or 0))),
        tuple(sorted(groups, key=lambda row: -row.lag)),
        now.faults,
    )


def without_rates(seen: Frame) -> Frame:
    """Return the frame with all rates set to None, for use after a failed request."""
    topics = tuple(row._replace(per_second=None) for row in seen.topics)
    return seen._replace(topics=topics, groups=tuple(row._replace(per_second=None, seconds_behind=None) for row in seen.groups))


def shared_lines(lines: int, wanted: Sequence[int]) -> list[int]:
    """Divide the lines of a screen among tables, and return the number of rows for each.

    wanted: the number of rows that each table has. Each table gets at least one row, none gets more than it has, and the large tables get
    equal parts of the rest.
    """
    given = [0] * len(wanted)
    left = max(lines, len(wanted))
    for index in sorted(range(len(wanted)), key=lambda index: wanted[index]):
        tables = sum(not count for count in given)
        given[index] = min(max(wanted[index], 1), left // tables)
        left -= given[index]
    return given


def tables_that_fit(lines: int, wanted: Sequence[int]) -> int:
    """Return how many of the tables fit on a screen, counted from the first.

    wanted: the number of rows that each table has. Each takes a heading and two rows, or one row if it has no more, and there is an empty
    line between two tables.
    """
    needed = -1
    for count, rows in enumerate(wanted):
        needed += 2 + min(max(rows, 1), 2)
        if count and needed > lines:
            return count
    return len(wanted)


def _brokers(now: Look) -> list[BrokerRow]:
    controller = now.cluster.controller
    return [
        BrokerRow(
            node.id,
            node.address,
            controller is not None and node.id == controller.id,
            sum(info.leader == node.id for info in now.partitions),
            sum(node.id in info.replicas for info in now.partitions),
            sum(node.id in info.replicas and node.id not in info.isr for info in now.partitions),
        )
        for node in now.cluster.nodes
    ]


def _topic(name: str, infos: Sequence[PartitionInfo], before: Look | None, now: Look, passed_s: float) -> TopicRow:
    partitions = [TopicPartition(name, info.partition) for info in infos]
    ends = {tp: now.ends[tp] for tp in partitions if tp in now.ends}
    # A partition that is new in this snapshot does not count: its records may be older than the last snapshot.
    moved = sum(at.end - before.ends[tp].end for tp, at in ends.items() if before is not None and tp in before.ends)
    records = sum(at.end - at.start for at in ends.values())
    return TopicRow(name, len(infos), sum(info.leader < 0 for info in infos), records, _rate(moved, passed_s))


def _group(now: GroupView, before: GroupView | None, passed_s: float) -> GroupRow:
    past = {(lag.topic, lag.partition): lag.committed for lag in before.lags} if before is not None else {}
    moved = 0
    for lag in now.lags:
        earlier = past.get((lag.topic, lag.partition))
        if earlier is not None and lag.committed is not None:
            moved += lag.committed - earlier
    rate, behind = _rate(moved, passed_s), total(now.lags)
    return GroupRow(now.group, now.state, len(now.members), behind, rate, behind / rate if rate and rate > 0 else None)


def _rate(moved: int, passed_s: float) -> float | None:
    return moved / passed_s if passed_s > 0 else None

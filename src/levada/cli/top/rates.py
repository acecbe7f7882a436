"""Rates, computed from two snapshots of a cluster. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from levada import GroupState, PartitionInfo, TopicPartition
from levada.cli.group_views import GroupView
from levada.cli.lag import total
from levada.cli.top.look import Look


class BrokerRow(NamedTuple):
    """A broker. address: "" if it has replicas and is down or removed. leaders: number of partitions that it leads. replicas, out_of_sync:
    number of its replicas, and of those not in sync.
    """

    broker: int
    address: str
    controller: bool
    leaders: int
    replicas: int
    out_of_sync: int


class TopicRow(NamedTuple):
    """A topic. records: offsets between the starts and ends of its logs. per_second: growth of the end offsets, None if not known."""

    topic: str
    partitions: int
    without_leader: int
    records: int
    per_second: float | None


class GroupRow(NamedTuple):
    """A group. lag: in offsets. per_second: growth of its committed offsets, None if not known. seconds_behind: lag / per_second, None
    without growth.
    """

    group: str
    state: GroupState
    members: int
    lag: int
    per_second: float | None
    seconds_behind: float | None


class Frame(NamedTuple):
    """What `levada top --once` prints. Topics are sorted by rate and groups by lag, the largest first."""

    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    groups: tuple[GroupRow, ...]
    faults: tuple[str, ...]


def frame(before: Look | None, now: Look, earlier: Look | None = None) -> Frame:
    """Return the figures of a snapshot. before: the snapshot before it, for the rates; None without rates.

    earlier: an older snapshot for the rates of groups, because groups commit every few seconds; None for `before`.
    """
    by_topic: dict[str, list[PartitionInfo]] = {}
    for info in now.partitions:
        by_topic.setdefault(info.topic, []).append(info)
    grown = growth(before, now)
    topics = [_topic(name, infos, now, grown) for name, infos in sorted(by_topic.items())]
    groups = [_group(view, earlier or before, now) for _, view in sorted(now.groups.items())]
    return Frame(
        tuple(_brokers(now)),
        tuple(sorted(topics, key=lambda row: -(row.per_second or 0))),
        tuple(sorted(groups, key=lambda row: -row.lag)),
        now.faults,
    )


def _brokers(now: Look) -> list[BrokerRow]:
    controller = now.cluster.controller
    addresses = {node.id: node.address for node in now.cluster.nodes}
    replicas = {broker for info in now.partitions for broker in info.replicas}
    return [
        BrokerRow(
            broker,
            addresses.get(broker, ""),
            controller is not None and broker == controller.id,
            sum(info.leader == broker for info in now.partitions),
            sum(broker in info.replicas for info in now.partitions),
            sum(broker in info.replicas and broker not in info.isr for info in now.partitions),
        )
        for broker in sorted(replicas | addresses.keys())
    ]


def _topic(name: str, infos: Sequence[PartitionInfo], now: Look, grown: Mapping[TopicPartition, float | None]) -> TopicRow:
    partitions = [TopicPartition(name, info.partition) for info in infos]
    rates = [rate for tp in partitions if (rate := grown.get(tp)) is not None]
    records = sum(at.end - at.start for tp in partitions if (at := now.ends.get(tp)) is not None)
    return TopicRow(name, len(infos), sum(info.leader < 0 for info in infos), records, sum(rates) if rates else None)


def _group(view: GroupView, before: Look | None, now: Look) -> GroupRow:
    rates = [rate for rate in progress(view, before, now).values() if rate is not None]
    rate, behind = sum(rates) if rates else None, total(view.lags)
    return GroupRow(view.group, view.state, len(view.members), behind, rate, behind / rate if rate and rate > 0 else None)


def progress(view: GroupView, before: Look | None, now: Look) -> dict[TopicPartition, float | None]:
    """Return the growth of a group's committed offsets per second, by partition. None unless both snapshots have the offset."""
    earlier = None if before is None else before.groups.get(view.group)
    past = {} if earlier is None else {lag.tp: lag.committed for lag in earlier.lags}
    return {lag.tp: _rate(past.get(lag.tp), lag.committed, before, now) for lag in view.lags}


def growth(before: Look | None, now: Look) -> dict[TopicPartition, float | None]:
    """Return the growth of the end offsets per second, by partition. None unless both snapshots have the offset.

    If only `now` has it, the partition's records may be older than the snapshot before.
    """
    past = {} if before is None else before.ends
    return {tp: _rate(past[tp].end if tp in past else None, at.end, before, now) for tp, at in now.ends.items()}


def _rate(earlier: int | None, offset: int | None, before: Look | None, now: Look) -> float | None:
    passed_s = 0.0 if before is None else now.taken_s - before.taken_s
    return None if earlier is None or offset is None or passed_s <= 0 else (offset - earlier) / passed_s

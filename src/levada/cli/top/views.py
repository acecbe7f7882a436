"""The tables that `levada top` shows: one for each place, such as the list of groups or one partition. Nothing here does I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from levada import PartitionInfo, TopicPartition
from levada.cli.group_views import GroupView, MemberView
from levada.cli.lag import LogEnds, PartitionLag
from levada.cli.text import counted, named
from levada.cli.top.look import Look
from levada.cli.top.rates import Frame, GroupRow, frame, growth, progress

Place: TypeAlias = tuple[str, ...]
"""("topics",), ("topics", TOPIC), ("topics", TOPIC, PARTITION), ("groups",), ("groups", GROUP), ("groups", GROUP, MEMBER), ("brokers",),
("brokers", ID), ("spark",) or ("errors",).
"""

PLACES: tuple[Place, ...] = (("topics",), ("groups",), ("brokers",), ("spark",), ("errors",))
"""The main places. The others are parts of these."""

KEPT = 40
"""How many values a trend has at most."""
COMMITS_S = 10.0
"""The rates of groups are averages over this time in seconds, because consumers commit every 5 s (auto.commit.interval.ms)."""
STUCK_S = 60.0
"""A consumer is stuck if records wait and it has committed nothing for this time in seconds."""
BARS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    """A column. is_number: whether it is aligned to the right, and sorted from the largest number on."""

    heading: str
    is_number: bool = True


class Trend(NamedTuple):
    """The last values of a figure, the oldest first."""

    values: tuple[float, ...]

    def bars(self, width: int) -> str:
        """Return the newest values as bars, up to the highest one of all values."""
        highest = max(self.values, default=0)
        shown = self.values[-width:]
        return "".join(BARS[max(0, min(int(value / highest * len(BARS)), len(BARS) - 1))] if highest > 0 else BARS[0] for value in shown)


class Seconds(float):
    """A length of time, shown as 1m 20s."""


Cell: TypeAlias = str | int | float | Trend | None


class Line(NamedTuple):
    """A line of a table. key: is the same in the next snapshot. leads_to: where Enter leads, () for nowhere.

    is_bad: something is wrong here, such as a partition without a leader. is_stale: some figures are those of an earlier snapshot.
    """

    key: str
    cells: tuple[Cell, ...]
    leads_to: Place = ()
    is_bad: bool = False
    is_stale: bool = False


class View(NamedTuple):
    """A table. about: a line above it. sorted_by: the heading that it is sorted by at first; "" for the order of the lines."""

    about: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    sorted_by: str = ""

    def ordered(self, heading: str, reverse: bool, containing: str) -> list[Line]:
        """Return the lines with this text in one of their cells, sorted by a column. reverse: from the last to the first.

        heading: of the column; if there is no such column, the lines keep their order. Lines without a value in it are always last.
        containing: upper and lower case do not matter; "" for all lines.
        """
        lines = [line for line in self.lines if _contains(line, containing)]
        if (at := next((number for number, column in enumerate(self.columns) if column.heading == heading), None)) is None:
            return lines[::-1] if reverse else lines
        known = [line for line in lines if line.cells[at] is not None]
        known.sort(key=lambda line: _sort_key(line.cells[at]), reverse=self.columns[at].is_number != reverse)
        return known + [line for line in lines if line.cells[at] is None]


def _contains(line: Line, text: str) -> bool:
    return any(text.casefold() in cell.casefold() for cell in line.cells if isinstance(cell, str)) if text else True


def _sort_key(cell: Cell) -> tuple[float, str]:
    if isinstance(cell, Trend):
        return (cell.values[-1] if cell.values else 0, "")
    return (0, cell) if isinstance(cell, str) else (cell or 0, "")


@dataclass
class Watched:
    """What `levada top` knows of a cluster: the last snapshot, earlier ones for rates, and trends.

    look: None before the first snapshot. is_old: whether brokers do not answer or the user paused, so that figures are shown without rates.
    """

    look: Look | None = None
    is_old: bool = False
    past: deque[Look] = field(default_factory=deque)
    """The snapshots before the last one, the oldest first: as many as are needed to look back COMMITS_S, and at least one. Snapshots from
    before an outage or a pause are removed.
    """
    waits: dict[tuple[str, TopicPartition], tuple[int | None, float]] = field(default_factory=dict)
    """For each partition with records that a group has not read: the committed offset, and the time in seconds since which it has not
    changed while there were such records.
    """
    stuck: dict[str, dict[TopicPartition, float]] = field(default_factory=dict)
    """By group, the partitions whose consumer has committed nothing for STUCK_S while records waited, and for how many seconds."""
    unseen: frozenset[TopicPartition] = frozenset()
    """Partitions whose ends the last snapshot did not have, for example without a leader. The ends of an earlier snapshot are kept."""
    trends: dict[Place, deque[float]] = field(default_factory=dict)

    def update(self, look: Look) -> None:
        """Make this snapshot the last one, and note waits and trends."""
        unseen = {TopicPartition(info.topic, info.partition) for info in look.partitions} - look.ends.keys()
        known: dict[TopicPartition, LogEnds] = {}
        if self.look is not None:
            known = {tp: self.look.ends[tp] for tp in unseen if tp in self.look.ends}
        self.unseen = frozenset(unseen)
        if self.is_old:
            # Rates over the time of an outage would be wrong.
            self.past.clear()
        elif self.look is not None:
            self.past.append(self.look)
        while len(self.past) > 1 and self.past[1].taken_s <= look.taken_s - COMMITS_S:
            self.past.popleft()
        self.look = look._replace(ends={**look.ends, **known})
        self.is_old = False
        self._note_waits(self.look)
        self._note_trends(self.frame())

    def _note_waits(self, look: Look) -> None:
        before, self.waits, self.stuck = self.waits, {}, {}
        for view in look.groups.values():
            for lag in (lag for lag in view.lags if lag.lag):
                committed, since_s = before.get((lag.group, lag.tp), (lag.committed, look.taken_s))
                since_s = since_s if committed == lag.committed else look.taken_s
                self.waits[lag.group, lag.tp] = (lag.committed, since_s)
                # A Spark query commits after each batch, which may take long.
                if lag.member_id and not view.of_spark and look.taken_s - since_s >= STUCK_S:
                    self.stuck.setdefault(view.group, {})[lag.tp] = look.taken_s - since_s

    def _note_trends(self, seen: Frame) -> None:
        assert self.look is not None
        now: dict[Place, float | None] = {("topics", row.topic): row.per_second for row in seen.topics}
        now |= {("groups", row.group): row.lag for row in seen.groups}
        now |= {("topics", tp.topic, str(tp.partition)): rate for tp, rate in self.growth().items()}
        for view in self.look.groups.values():
            now |= {("groups", view.group, str(lag.tp)): lag.lag for lag in view.lags}
        self.trends = {place: self.trends.get(place, deque(maxlen=KEPT)) for place in now}
        for place, value in now.items():
            if value is not None:
                self.trends[place].append(value)

    def failed(self) -> None:
        """Note that brokers do not answer."""
        self.is_old = True

    def frame(self) -> Frame:
        """Return the figures of the last snapshot."""
        assert self.look is not None
        return frame(self.before, self.look, self.earlier)

    @property
    def before(self) -> Look | None:
        """The snapshot before the last one, for rates; None if there are no rates."""
        return None if self.is_old or not self.past else self.past[-1]

    @property
    def earlier(self) -> Look | None:
        """The snapshot for the rates of groups; None if there are no rates."""
        return None if self.is_old or not self.past else self.past[0]

    def growth(self) -> dict[TopicPartition, float | None]:
        """Return the growth of the end offsets per second, by partition; None if unknown."""
        assert self.look is not None
        return {tp: None if tp in self.unseen else rate for tp, rate in growth(self.before, self.look).items()}

    def trend(self, *place: str) -> Trend:
        """Return the last values for a place: rates of topics and partitions, lags of groups and of their partitions."""
        return Trend(tuple(self.trends.get(place, ())))


def health(watched: Watched) -> tuple[str, bool]:
    """Return a line about the whole cluster, and whether something is wrong."""
    if watched.look is None:
        return "waiting for the first answer", False
    seen, partitions = watched.frame(), watched.look.partitions
    down = [str(row.broker) for row in seen.brokers if not row.address]
    offline = sum(info.leader < 0 for info in partitions)
    short = sum(len(info.isr) < len(info.replicas) for info in partitions)
    bad = [
        *([f"broker {named(down)} down or removed"] if down else []),
        *([f"{counted(offline, 'partition')} without a leader"] if offline else []),
        *([f"{counted(short, 'partition')} with replicas out of sync"] if short else []),
        *([f"{counted(len(seen.faults), 'error')}"] if seen.faults else []),
    ]
    rates = [row.per_second for row in seen.topics if row.per_second is not None]
    flow = f"{sum(rates):,.0f} records/s in, " if rates else ""
    counts = ", ".join(
        counted(number, noun)
        for number, noun in ((len(seen.brokers) - len(down), "broker"), (len(seen.topics), "topic"), (len(partitions), "partition"))
    )
    return "; ".join([*bad, f"{flow}{sum(row.lag for row in seen.groups):,} behind", counts]), bool(bad)


def view_of(place: Place, watched: Watched) -> View:
    """Return the table of a place. It has no lines before the first snapshot, or if what it shows is gone."""
    if watched.look is None:
        return View("", (), ())
    kind, *names = place
    return _VIEWS[kind, len(names)](watched, watched.look, *names)


def _topics(watched: Watched, look: Look) -> View:
    stale = {tp.topic for tp in watched.unseen}
    lines = [
        Line(
            row.topic,
            (row.topic, row.partitions, row.without_leader, row.records, row.per_second, watched.trend("topics", row.topic)),
            ("topics", row.topic),
            is_bad=row.without_leader > 0,
            is_stale=row.topic in stale,
        )
        for row in watched.frame().topics
    ]
    columns = (Column("topic", False), Column("partitions"), Column("offline"), Column("records"), Column("per s"), Column("trend", False))
    return View(counted(len(lines), "topic"), columns, tuple(lines), "per s")


def _partitions(watched: Watched, look: Look, topic: str) -> View:
    infos = [info for info in look.partitions if info.topic == topic]
    columns = (
        *(Column("partition"), Column("leader"), Column("replicas", False), Column("in sync", False)),
        *(Column("start"), Column("end"), Column("per s"), Column("trend", False)),
    )
    rates = watched.growth()
    lines = []
    for info in sorted(infos, key=lambda info: info.partition):
        tp = TopicPartition(info.topic, info.partition)
        start, end = look.ends.get(tp, (None, None))
        trend = watched.trend("topics", topic, str(info.partition))
        cells = (info.partition, _leader(info), _ids(info.replicas), _ids(info.isr), start, end, rates.get(tp), trend)
        lines.append(Line(str(tp), cells, ("topics", topic, str(info.partition)), _is_bad(info), tp in watched.unseen))
    return View(f"topic {topic}: {counted(len(lines), 'partition')}", columns, tuple(lines))


def _readers(watched: Watched, look: Look, topic: str, partition: str) -> View:
    """The groups that read a partition."""
    tp = TopicPartition(topic, int(partition))
    info = next((info for info in look.partitions if (info.topic, info.partition) == tp), None)
    columns = (
        *(Column("group", False), Column("consumer", False), Column("committed")),
        *(Column("lag"), Column("per s"), Column("trend", False)),
    )
    lines = [
        _line_of_lag(watched, look, view, lag, (view.group, lag.client_id or None, lag.committed))
        for view in look.groups.values()
        for lag in view.lags
        if lag.tp == tp
    ]
    about = f"{tp} is gone" if info is None else f"{tp}: leader {_leader(info) or 'none'}, replicas {_ids(info.replicas)}"
    if info is not None:
        about += f", in sync {_ids(info.isr) or 'none'}" + (f", end {look.ends[tp].end:,}" if tp in look.ends else "")
    return View(about, columns, tuple(line._replace(key=str(line.cells[0])) for line in lines), "lag")


GROUP_COLUMNS = (
    *(Column("group", False), Column("state", False), Column("members"), Column("lag")),
    *(Column("per s"), Column("behind"), Column("lag over time", False)),
)


def _group_lines(watched: Watched, look: Look, rows: Iterable[GroupRow]) -> tuple[Line, ...]:
    return tuple(
        Line(
            row.group,
            (
                *(row.group, row.state.value, row.members, row.lag, row.per_second),
                *(None if row.seconds_behind is None else Seconds(row.seconds_behind), watched.trend("groups", row.group)),
            ),
            ("groups", row.group),
            is_bad=row.group in watched.stuck or any(lag.lost for lag in look.groups[row.group].lags),
        )
        for row in rows
    )


def _groups(watched: Watched, look: Look) -> View:
    lines = _group_lines(watched, look, watched.frame().groups)
    return View(counted(len(lines), "group"), GROUP_COLUMNS, lines, "lag")


def _spark(watched: Watched, look: Look) -> View:
    rows = [row for row in watched.frame().groups if look.groups[row.group].of_spark]
    columns = tuple(column for column in GROUP_COLUMNS if column.heading not in ("state", "members"))
    shown = [number for number, column in enumerate(GROUP_COLUMNS) if column in columns]
    lines = tuple(line._replace(cells=tuple(line.cells[number] for number in shown)) for line in _group_lines(watched, look, rows))
    about = (
        "Spark queries with commitOffsets=true, by their kafka.group.id" if lines else "no Spark query commits offsets (commitOffsets=true)"
    )
    return View(about, columns, lines, "lag")


LAG_COLUMNS = (
    *(Column("partition", False), Column("committed"), Column("end"), Column("lag")),
    *(Column("per s"), Column("trend", False), Column("consumer", False)),
)


def _lags(watched: Watched, look: Look, group: str, member_id: str | None = None) -> View:
    view = look.groups.get(group)
    if view is None:
        return View(f"group {group} is gone", LAG_COLUMNS, ())
    lags = [lag for lag in view.lags if member_id in (None, lag.member_id)]
    lines = [_line_of_lag(watched, look, view, lag, (str(lag.tp), lag.committed, lag.log_end), (lag.client_id or None,)) for lag in lags]
    member = next((one for one in view.members if one.member_id == member_id), None)
    about = _about(watched, view) if member_id is None else _about_member(group, member)
    if member_id is not None:
        lines = [line._replace(leads_to=("topics", lag.topic, str(lag.partition))) for line, lag in zip(lines, lags, strict=True)]
    return View(about, LAG_COLUMNS, tuple(lines), "lag")


def _line_of_lag(
    watched: Watched, look: Look, view: GroupView, lag: PartitionLag, before: tuple[Cell, ...], after: tuple[Cell, ...] = ()
) -> Line:
    """Return a line with the lag of a group in a partition. before, after: the cells around lag, rate and trend."""
    rate = progress(view, watched.earlier, look).get(lag.tp)
    cells = (*before, lag.lag, rate, watched.trend("groups", view.group, str(lag.tp)), *after)
    leads_to = ("groups", view.group, lag.member_id) if lag.member_id else ("topics", lag.topic, str(lag.partition))
    return Line(
        str(lag.tp), cells, leads_to, is_bad=lag.lost > 0 or lag.tp in watched.stuck.get(view.group, ()), is_stale=lag.tp in watched.unseen
    )


def _about(watched: Watched, view: GroupView) -> str:
    if stuck := watched.stuck.get(view.group):
        return f"group {view.group}: no commit for {min(stuck.values()):.0f} s in {named([str(tp) for tp in stuck])}"
    assignor = f", {view.assignor}" if view.assignor else ""
    return f"group {view.group}: {view.state.value}, {counted(len(view.members), 'member')}{assignor}, coordinator {view.coordinator}"


def _about_member(group: str, member: MemberView | None) -> str:
    if member is None:
        return f"this consumer has left group {group}"
    instance = f", instance {member.group_instance_id}" if member.group_instance_id else ""
    return f"consumer {member.client_id} of group {group}: on {member.host}{instance}, {member.member_id}"


def _brokers(watched: Watched, look: Look) -> View:
    columns = (
        *(Column("broker"), Column("address", False), Column("controller", False)),
        *(Column("leaders"), Column("replicas"), Column("out of sync")),
    )
    lines = [
        Line(
            str(row.broker),
            (row.broker, row.address or "down or removed", "yes" if row.controller else None, row.leaders, row.replicas, row.out_of_sync),
            ("brokers", str(row.broker)),
            is_bad=row.out_of_sync > 0 or not row.address,
        )
        for row in watched.frame().brokers
    ]
    return View(f"cluster {look.cluster.cluster_id}: {counted(len(lines), 'broker')}", columns, tuple(lines))


def _led(watched: Watched, look: Look, broker: str) -> View:
    """The partitions that have a replica on a broker."""
    columns = (*(Column("partition", False), Column("leader", False), Column("in sync", False)), *(Column("per s"), Column("trend", False)))
    rates = watched.growth()
    lines = []
    for info in look.partitions:
        tp = TopicPartition(info.topic, info.partition)
        if int(broker) in info.replicas:
            leads = "yes" if info.leader == int(broker) else None
            cells = (str(tp), leads, _ids(info.isr), rates.get(tp), watched.trend("topics", tp.topic, str(tp.partition)))
            place = ("topics", tp.topic, str(tp.partition))
            lines.append(Line(str(tp), cells, place, int(broker) not in info.isr, tp in watched.unseen))
    node = next((node for node in look.cluster.nodes if node.id == int(broker)), None)
    about = f"broker {broker}" + (f" at {node.address}" if node is not None else ", which is not there")
    return View(f"{about}: {counted(len(lines), 'replica')}", columns, tuple(lines), "per s")


def _errors(watched: Watched, look: Look) -> View:
    lines = tuple(Line(fault, (fault,), is_bad=True) for fault in look.faults)
    return View("what brokers did not answer" if lines else "no errors", (Column("error", False),), lines)


def _is_bad(info: PartitionInfo) -> bool:
    return info.leader < 0 or len(info.isr) < len(info.replicas)


def _leader(info: PartitionInfo) -> int | None:
    return info.leader if info.leader >= 0 else None


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


_VIEWS: Mapping[tuple[str, int], Callable[..., View]] = {
    ("topics", 0): _topics,
    ("topics", 1): _partitions,
    ("topics", 2): _readers,
    ("groups", 0): _groups,
    ("groups", 1): _lags,
    ("groups", 2): _lags,
    ("brokers", 0): _brokers,
    ("brokers", 1): _led,
    ("spark", 0): _spark,
    ("errors", 0): _errors,
}

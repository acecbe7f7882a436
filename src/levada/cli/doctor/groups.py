"""Findings about consumer groups. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from levada import GroupState
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.lag import PartitionLag, total
from levada.cli.text import counted, named

WAIT_S = 60.0
"""How long a record may wait for a group with members before that is reported, in seconds."""
_HOT = 1.5
"""A partition is hot if it gets this many times the records that it would get if all partitions had the same number."""
_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.ASSIGNING, GroupState.RECONCILING)


class Delay(NamedTuple):
    """A partition in which a record waits for a group for longer than WAIT_S. lag: its lag.

    moves: whether the group committed another offset while doctor watched it. partitions: number of partitions of the topic.
    share: the part of the topic's records of the last WAIT_S that is in this partition, from 0 to 1; None if there were no records.
    blocked: whether the group stands at the first record of an open transaction.
    """

    lag: PartitionLag
    moves: bool
    partitions: int
    share: float | None
    blocked: bool = False


class Seen(NamedTuple):
    """A group that was described twice.

    states: at the first and at the second look, a moment later. idle_members: the number of members without a partition. lags: the lag of
    each partition. delays: the partitions in which records wait for long; empty for a group without members, a share group and a group of
    Spark.
    """

    group: str
    states: tuple[GroupState, GroupState]
    members: int
    idle_members: int
    lags: Sequence[PartitionLag]
    delays: Sequence[Delay] = ()


def examined(groups: Sequence[Seen]) -> list[Finding]:
    """Return the findings about groups. All healthy groups share one finding."""
    found = [finding for group in groups for finding in _of(group)]
    well = [group.group for group in groups if not any(finding.about == _about(group) for finding in found)]
    if well:
        found.insert(0, Finding(Step.GROUPS, Status.OK, counted(len(well), "group"), f"nothing is wrong with {named(well)}"))
    return found or [Finding(Step.GROUPS, Status.OK, "all groups", "there are none")]


def _about(group: Seen) -> str:
    return f"group {group.group}"


def _of(group: Seen) -> list[Finding]:
    found = []
    before, now = group.states
    if now is GroupState.DEAD:
        found.append(_finding(group, Status.FAILED, "it does not exist", "check the name; `levada groups list` prints all groups"))
    if before in _REBALANCING and now in _REBALANCING:
        advice = "look for a member that does not call poll() within max.poll.interval.ms, and for members that come and go"
        found.append(_finding(group, Status.WARNING, f"it is being rebalanced ({now}), and its members wait", advice))
    behind = total(group.lags)
    if not group.members and behind:
        text = f"it has no members, and {counted(behind, 'record')} to read"
        furthest = max(group.lags, key=lambda lag: lag.lag or 0)
        advice = (
            "start its consumers, or delete the group if it is no longer used. If they end again and again, their log tells why; "
            f"`{_show(furthest)}` prints the next record of {furthest.tp}"
        )
        found.append(_finding(group, Status.WARNING, text, advice))
    if group.idle_members:
        text = f"{group.idle_members} of {counted(group.members, 'member')} have no partition: there are more members than partitions"
        found.append(_finding(group, Status.WARNING, text, "stop those members, or add partitions"))
    found += _of_delays(group)
    found += [_of_lost(group, lost)] if (lost := [lag for lag in group.lags if lag.lost]) else []
    return found


def _of_delays(group: Seen) -> list[Finding]:
    # A member that commits in one of the partitions in which it is late does not hang: it has not come to the others yet.
    busy = {delay.lag.member_id for delay in group.delays if delay.moves}
    hot, slow, blocked, stuck = [], [], [], []
    for delay in group.delays:
        if delay.blocked:
            blocked.append(delay)
        elif delay.moves and _is_hot(delay):
            hot.append(delay)
        elif delay.moves or (delay.lag.member_id and delay.lag.member_id in busy):
            slow.append(delay)
        else:
            stuck.append(delay)
    of_hot = {delay.lag.member_id for delay in hot}
    found = [_of_hot(group, delay, [other.lag for other in slow if other.lag.member_id == delay.lag.member_id]) for delay in hot]
    found += [_of_slow(group, of_topic) for of_topic in _by_topic([delay for delay in slow if delay.lag.member_id not in of_hot])]
    by_member: dict[str, list[Delay]] = {}
    for delay in stuck:
        by_member.setdefault(delay.lag.member_id, []).append(delay)
    found += [_of_stuck(group, delays) for delays in by_member.values()]
    return [*found, _of_blocked(group, blocked)] if blocked else found


def _is_hot(delay: Delay) -> bool:
    return delay.share is not None and delay.share * delay.partitions >= _HOT


def _by_topic(delays: Sequence[Delay]) -> list[list[Delay]]:
    return [[delay for delay in delays if delay.lag.topic == topic] for topic in sorted({delay.lag.topic for delay in delays})]


def _of_stuck(group: Seen, delays: Sequence[Delay]) -> Finding:
    """Return the finding about a member that committed nothing, or about partitions that no member reads."""
    first = delays[0].lag
    hot = "".join(f"; {one.share:.0%} of the new records of {one.lag.topic} are in {one.lag.tp}" for one in delays if _is_hot(one))
    waiting = f"{_records(delays)} to read, the oldest for more than {WAIT_S:.0f} s{hot}"
    if not first.member_id:
        return _finding(group, Status.WARNING, f"no member reads {_where(delays)}: {waiting}", "are these topics still subscribed to?")
    skip = f"levada groups reset {group.group} -t {first.topic}:{first.partition} --by 1 --execute"
    return _finding(
        group,
        Status.WARNING,
        f"member {first.client_id} on {first.host.removeprefix('/')} committed nothing in {_where(delays)} while doctor watched: {waiting}",
        f"its program commits rarely, hangs, is dead, or fails at one record again and again: look at its log. "
        f"`{_show(first)}` prints the next record; to skip that, stop the members and run `{skip}`",
    )


def _of_slow(group: Seen, delays: Sequence[Delay]) -> Finding:
    """Return the finding about partitions of one topic that are read more slowly than they are written."""
    who = named(sorted({delay.lag.client_id for delay in delays} - {""})) or "the group"
    text = f"{who}: more than {WAIT_S:.0f} s behind in {_where(delays)}, {_records(delays)}"
    partitions = delays[0].partitions
    more = f"start more, up to {partitions} for this topic" if group.members < partitions else "add partitions"
    advice = f"`levada top` shows whether its lag falls. If not, its consumers are slower than the producers: make them faster, or {more}"
    return _finding(group, Status.WARNING, text, advice)


def _of_hot(group: Seen, delay: Delay, others: Sequence[PartitionLag]) -> Finding:
    """Return the finding about a partition that gets most records. others: what its member reads too late because of it."""
    lag = delay.lag
    meanwhile = f" (meanwhile {named([str(other.tp) for other in others])} must wait)" if others else ""
    return _finding(
        group,
        Status.WARNING,
        f"{lag.client_id or 'the group'}: more than {WAIT_S:.0f} s behind in {lag.tp}, {counted(lag.lag or 0, 'record')}{meanwhile}; "
        f"{delay.share:.0%} of the new records of {lag.topic} are in this one of {delay.partitions} partitions",
        "more consumers or partitions do not help: many records have the same key, or the producers' partitioner chooses this partition. "
        f"`levada consume {lag.topic} -p {lag.partition} -o -1000 -e -f '%k\\n' | sort | uniq -c | sort -rn | head` counts the keys. "
        "Give a key that most records have a suffix, if their order does not matter; what waits already stays in this partition",
    )


def _of_blocked(group: Seen, delays: Sequence[Delay]) -> Finding:
    text = f"it waits for the end of a transaction in {_where(delays)}: {_records(delays)} to read"
    advice = "its program is well: with isolation.level=read_committed it reads on when the transaction ends, which is named below"
    return _finding(group, Status.WARNING, text, advice)


def _where(delays: Sequence[Delay]) -> str:
    return named([str(delay.lag.tp) for delay in delays])


def _records(delays: Sequence[Delay]) -> str:
    return counted(sum(delay.lag.lag or 0 for delay in delays), "record")


def _show(lag: PartitionLag) -> str:
    return f"levada consume {lag.topic} -p {lag.partition} -o {lag.committed} -c 1 -f hex"


def _of_lost(group: Seen, lost: Sequence[PartitionLag]) -> Finding:
    where = named([f"{lag.topic}-{lag.partition}" for lag in lost])
    text = f"it has not read {counted(sum(lag.lost for lag in lost), 'offset')} that retention deleted, in {where}"
    advice = "its consumers are slower than retention: make them faster, or retention.ms longer; `levada groups reset` sets new offsets"
    return _finding(group, Status.FAILED, text, advice)


def _finding(group: Seen, status: Status, text: str, advice: str) -> Finding:
    return Finding(Step.GROUPS, status, _about(group), text, advice)

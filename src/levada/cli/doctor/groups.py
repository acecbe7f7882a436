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
    """

    lag: PartitionLag
    moves: bool
    partitions: int
    share: float | None


class Seen(NamedTuple):
    """A group that was described twice.

    states: at the first and at the second look, a moment later. idle_members: the number of members without a partition. lags: the lag of
    each partition. delays: the partitions of a group with members in which records wait for long.
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
        found.append(_finding(group, Status.WARNING, text, "start its consumers, or delete the group if it is no longer used"))
    if group.idle_members:
        text = f"{group.idle_members} of {counted(group.members, 'member')} have no partition: there are more members than partitions"
        found.append(_finding(group, Status.WARNING, text, "stop those members, or add partitions"))
    by_member: dict[str, list[Delay]] = {}
    for delay in group.delays:
        if delay.moves:
            found.append(_of_slow(group, delay))
        else:
            by_member.setdefault(delay.lag.member_id, []).append(delay)
    found += [_of_stuck(group, delays) for delays in by_member.values()]
    found += [_of_lost(group, lost)] if (lost := [lag for lag in group.lags if lag.lost]) else []
    return found


def _of_stuck(group: Seen, delays: Sequence[Delay]) -> Finding:
    """Return the finding about a member that committed nothing, or about partitions that no member reads."""
    first = delays[0].lag
    where = named([str(delay.lag.tp) for delay in delays])
    waiting = f"{counted(sum(delay.lag.lag or 0 for delay in delays), 'record')} to read, the oldest for more than {WAIT_S:.0f} s"
    if not first.member_id:
        return _finding(group, Status.WARNING, f"no member reads {where}: {waiting}", "are these topics still subscribed to?")
    show = f"levada consume {first.topic} -p {first.partition} -o {first.committed} -c 1 -f hex"
    skip = f"levada groups reset {group.group} -t {first.topic}:{first.partition} --by 1 --execute"
    return _finding(
        group,
        Status.WARNING,
        f"member {first.client_id} on {first.host.removeprefix('/')} committed nothing in {where} while doctor watched: {waiting}",
        f"its program commits rarely, hangs, is dead, or fails at one record again and again: look at its log. "
        f"`{show}` prints the next record; to skip that, stop the members and run `{skip}`",
    )


def _of_slow(group: Seen, delay: Delay) -> Finding:
    lag = delay.lag
    text = f"{lag.client_id or 'the group'} is more than {WAIT_S:.0f} s behind in {lag.tp}, {counted(lag.lag or 0, 'record')}"
    if delay.share is None or delay.share * delay.partitions < _HOT:
        advice = f"its consumers are slower than the producers: make them faster, or start more, up to {delay.partitions} for this topic"
        return _finding(group, Status.WARNING, text, advice)
    return _finding(
        group,
        Status.WARNING,
        f"{text}; {delay.share:.0%} of the new records of {lag.topic} are in this one of {delay.partitions} partitions",
        "more consumers do not help: many records have the same key, or the producers' partitioner chooses this partition. "
        f"`levada consume {lag.topic} -p {lag.partition} -o -1000 -e -f '%k\\n' | sort | uniq -c | sort -rn | head` counts the keys",
    )


def _of_lost(group: Seen, lost: Sequence[PartitionLag]) -> Finding:
    where = named([f"{lag.topic}-{lag.partition}" for lag in lost])
    text = f"it has not read {counted(sum(lag.lost for lag in lost), 'offset')} that retention deleted, in {where}"
    advice = "its consumers are slower than retention: make them faster, or retention.ms longer; `levada groups reset` sets new offsets"
    return _finding(group, Status.FAILED, text, advice)


def _finding(group: Seen, status: Status, text: str, advice: str) -> Finding:
    return Finding(Step.GROUPS, status, _about(group), text, advice)

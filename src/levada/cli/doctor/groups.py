"""Findings about consumer groups. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from levada import GroupState
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.lag import PartitionLag, total
from levada.cli.text import counted, named

_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.ASSIGNING, GroupState.RECONCILING)


class Seen(NamedTuple):
    """A group that was described twice.

    states: at the first and at the second look, a moment later. idle_members: the number of members without a partition. lags: the lag of
    each partition.
    """

    group: str
    states: tuple[GroupState, GroupState]
    members: int
    idle_members: int
    lags: Sequence[PartitionLag]


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
    found += [_of_lost(group, lost)] if (lost := [lag for lag in group.lags if lag.lost]) else []
    return found


def _of_lost(group: Seen, lost: Sequence[PartitionLag]) -> Finding:
    where = named([f"{lag.topic}-{lag.partition}" for lag in lost])
    text = f"it has not read {counted(sum(lag.lost for lag in lost), 'offset')} that retention deleted, in {where}"
    advice = "its consumers are slower than retention: make them faster, or retention.ms longer; `levada groups reset` sets new offsets"
    return _finding(group, Status.FAILED, text, advice)


def _finding(group: Seen, status: Status, text: str, advice: str) -> Finding:
    return Finding(Step.GROUPS, status, _about(group), text, advice)

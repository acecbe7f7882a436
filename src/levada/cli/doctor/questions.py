"""Asks a reachable cluster about its clock, partitions, groups and transactions, and yields findings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from levada import (
    ConfigResource,
    ConfigResourceType,
    GroupState,
    GroupType,
    IsolationLevel,
    KafkaAdmin,
    KafkaError,
    OffsetSpec,
    PartitionInfo,
    TopicPartition,
)
from levada.cli.doctor import cluster, groups
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.group_views import GroupView, group_views
from levada.cli.hanging import open_transactions
from levada.cli.lag import LogEnds, PartitionLag
from levada.cli.ledgers import ledger_entry, sinks_of_slots
from levada.cli.positions import ends_at_leaders, log_ends
from levada.cli.text import counted
from levada.errors import UnsupportedVersionError
from levada.exactly_once.ledger import Entry

_WATCH_S = 10.0
"""How long doctor waits for a commit of a group that is behind, in seconds. Consumers commit every 5 s (auto.commit.interval.ms)."""
_LOOK_S = 1.0
"""Time in seconds between two looks at committed offsets."""
_MIN_IN_SYNC = "min.insync.replicas"


def about_clocks(admin: KafkaAdmin, timeout: float, wall_ms: Callable[[], int]) -> Iterator[Finding]:
    """Compare this machine's clock with the clock of the leader of the controller quorum. Brokers report that since Kafka 3.3 (KIP-836).

    timeout: in seconds. wall_ms: returns this machine's time in ms since the epoch.
    """
    before_ms = wall_ms()
    try:
        quorum = admin.describe_metadata_quorum(timeout=timeout)
    except UnsupportedVersionError:
        yield Finding(Step.CLOCK, Status.OK, "cluster", "unknown: brokers report their clock since Kafka 3.3, without ZooKeeper")
        return
    except KafkaError as error:
        yield Finding(Step.CLOCK, Status.WARNING, "cluster", f"unknown: {error}")
        return
    after_ms = wall_ms()
    theirs = next((voter.last_fetch_ms for voter in quorum.voters if voter.node_id == quorum.leader_id), None)
    if theirs is not None:
        yield cluster.clock(f"controller {quorum.leader_id}", theirs, before_ms, after_ms)


def about_partitions(admin: KafkaAdmin, scope: Scope, brokers: Collection[int]) -> Iterator[Finding]:
    """Examine the leaders and replicas of the topics in scope. brokers: ids of the brokers that are up."""
    names = list(scope.topics) or admin.list_topics(internal=True, timeout=scope.timeout)
    described = admin.outcomes(admin.describe_topics, names, timeout=scope.timeout)
    partitions: list[PartitionInfo] = []
    for name, found in described.items():
        if isinstance(found, KafkaError):
            yield Finding(
                Step.LEADERS, Status.FAILED, f"topic {name}", str(found), "check the name; `levada topics list` prints all topics"
            )
        else:
            partitions += found.partitions
    if described and not partitions:
        return
    yield cluster.leaders(partitions)
    yield from cluster.replicas(partitions, _min_in_sync(admin, partitions, scope.timeout), brokers)


def about_groups(admin: KafkaAdmin, scope: Scope, wall_ms: Callable[[], int]) -> Generator[Finding, None, set[TopicPartition]]:
    """Examine the groups in scope. Look at their states twice: a group that rebalances both times may be stuck.

    Returns the partitions in which groups wait for the end of a transaction. wall_ms: returns this machine's time in ms since the epoch.
    """
    listings = [one for one in admin.list_groups(timeout=scope.timeout) if not scope.groups or one.group_id in scope.groups]
    for missing in sorted(set(scope.groups) - {one.group_id for one in listings}):
        yield Finding(
            Step.GROUPS, Status.FAILED, f"group {missing}", "it does not exist", "check the name; `levada groups list` prints all groups"
        )
    views = group_views(admin, listings, lambda partitions: log_ends(admin, partitions))
    for name, found in views.items():
        if isinstance(found, KafkaError):
            yield Finding(Step.GROUPS, Status.FAILED, f"group {name}", str(found))
    seen, of_sinks, sinks = [], Counter[str](), _sinks(admin, views, scope.timeout)
    for view in views.values():
        if isinstance(view, KafkaError):
            continue
        if not view.members and view.group in sinks:
            of_sinks[sinks[view.group]] += 1
        elif not view.members and (entry := _ledger(admin, view.group, scope.timeout)) is not None:
            text = f"an exactly-once Spark sink keeps its progress here; last batch: {entry.batch.number}"
            yield Finding(Step.GROUPS, Status.OK, f"group {view.group}", text)
        else:
            seen.append(view)
    for sink, count in of_sinks.items():
        text = f"{counted(count, 'group')} with the outcomes of transactions of its tasks; the next batch deletes some, the others expire"
        yield Finding(Step.GROUPS, Status.OK, f"sink {sink}", text)
    delays = _delays(admin, seen, wall_ms() - round(groups.WAIT_S * 1000), scope.watch_s)
    later = {one.group_id: one.state for one in admin.list_groups(timeout=scope.timeout)}
    if seen or not (views or scope.groups):
        yield from groups.examined([_seen(view, later.get(view.group, GroupState.DEAD), delays.get(view.group, ())) for view in seen])
    return {delay.lag.tp for some in delays.values() for delay in some if delay.blocked}


def _delays(admin: KafkaAdmin, views: Sequence[GroupView], since_ms: int, watch_s: float) -> dict[str, list[groups.Delay]]:
    """Return the partitions in which records wait for long, by group with members.

    If there are any, wait up to watch_s seconds for commits of these groups. since_ms: records before this time wait for long, in ms since
    the epoch.
    """
    # A share group commits no offsets. A Spark query commits after each batch, which may take long.
    read = [view for view in views if view.members and view.type is not GroupType.SHARE and not view.of_spark]
    behind = {lag.topic for view in read for lag in view.lags if lag.lag}
    logs = _recent(admin, behind, since_ms) if behind else {}
    late = {view.group: [lag for lag in view.lags if lag.lag and lag.tp in logs and _is_late(lag, logs[lag.tp])] for view in read}
    late = {group: lags for group, lags in late.items() if lags}
    stable = _stable_ends(admin, {lag.tp for lags in late.values() for lag in lags})
    blocked = {(group, lag.tp) for group, lags in late.items() for lag in lags if _is_blocked(lag, stable.get(lag.tp))}
    watched = {(group, lag.tp): lag.committed for group, lags in late.items() for lag in lags if (group, lag.tp) not in blocked}
    moved = _moved(admin, watched, watch_s)
    new = {tp: log.end - log.start for tp, log in logs.items()}
    partitions = Counter(tp.topic for tp in new)
    of_topic: Counter[str] = Counter()
    for tp, records in new.items():
        of_topic[tp.topic] += records

    def delay(group: str, lag: PartitionLag) -> groups.Delay:
        share = new[lag.tp] / of_topic[lag.topic] if of_topic[lag.topic] else None
        return groups.Delay(lag, (group, lag.tp) in moved, partitions[lag.topic], share, (group, lag.tp) in blocked)

    return {group: [delay(group, lag) for lag in lags] for group, lags in late.items()}


def _stable_ends(admin: KafkaAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets up to which consumers with isolation.level=read_committed read. Partitions with an error are left out."""
    if not partitions:
        return {}
    specs = dict.fromkeys(partitions, OffsetSpec.LATEST)
    outcomes = admin.outcomes(admin.list_offsets, specs, isolation_level=IsolationLevel.READ_COMMITTED)
    return {tp: found.offset for tp, found in outcomes.items() if found is not None and not isinstance(found, KafkaError)}


def _is_blocked(lag: PartitionLag, stable: int | None) -> bool:
    """Return whether a group has read all records before an open transaction.

    stable: offset of the transaction's first record, the end of the log without one, or None if unknown. Some programs commit the offset
    after the last record that they read, although the marker of an earlier transaction stands there: that is one before `stable`.
    """
    if stable is None or lag.committed is None or lag.log_end is None:
        return False
    return stable < lag.log_end and stable - 1 <= lag.committed <= stable


def _is_late(lag: PartitionLag, recent: LogEnds) -> bool:
    return lag.committed is not None and lag.committed < recent.start


def _recent(admin: KafkaAdmin, topics: Collection[str], since_ms: int) -> dict[TopicPartition, LogEnds]:
    """Return the first offset since a time and the end of the log, by partition. Partitions without a leader are left out."""
    described = admin.outcomes(admin.describe_topics, sorted(topics))
    infos = [info for found in described.values() if not isinstance(found, KafkaError) for info in found.partitions]
    ends = ends_at_leaders(admin, infos)
    starts = admin.outcomes(admin.list_offsets, dict.fromkeys(ends, since_ms)) if ends else {}
    # None: all records are older than since_ms.
    return {
        tp: LogEnds(ends[tp].end if found is None else found.offset, ends[tp].end)
        for tp, found in starts.items()
        if not isinstance(found, KafkaError)
    }


def _moved(
    admin: KafkaAdmin, committed: Mapping[tuple[str, TopicPartition], int | None], watch_s: float
) -> set[tuple[str, TopicPartition]]:
    """Return the groups and partitions whose committed offset changes within watch_s seconds. Ends earlier once all have changed."""
    moved: set[tuple[str, TopicPartition]] = set()
    until_s = time.monotonic() + watch_s
    while (left := committed.keys() - moved) and time.monotonic() < until_s:
        time.sleep(min(watch_s, _LOOK_S))
        outcomes = admin.outcomes(admin.list_consumer_group_offsets, dict.fromkeys(sorted({group for group, _ in left})))
        for group, tp in left:
            found = outcomes[group]
            if not isinstance(found, KafkaError) and (at := found.get(tp)) is not None and at.offset != committed[group, tp]:
                moved.add((group, tp))
    return moved


def _ledger(admin: KafkaAdmin, group: str, timeout: float) -> Entry | None:
    """Return the entry that an exactly-once Spark sink stored as this group's offset, or None, also on an error.

    Such an offset has no lag.
    """
    try:
        return ledger_entry(admin, group, timeout)
    except KafkaError:
        return None


def _sinks(admin: KafkaAdmin, groups: Iterable[str], timeout: float) -> Mapping[str, str]:
    """Return the Spark sink of each group that has the outcome of one of its transactions; empty on an error."""
    try:
        return sinks_of_slots(admin, groups, timeout)
    except KafkaError:
        return {}


def about_transactions(
    admin: KafkaAdmin, scope: Scope, wall_ms: Callable[[], int], blocked: Collection[TopicPartition]
) -> Iterator[Finding]:
    """Examine the open transactions.

    wall_ms: returns this machine's time in ms since the epoch. blocked: partitions in which groups wait for the end of a transaction.
    """
    try:
        opened = open_transactions(admin, scope.timeout)
    except UnsupportedVersionError:
        yield Finding(Step.TRANSACTIONS, Status.OK, "cluster", "unknown: brokers list open transactions since Kafka 3.0")
        return
    yield from cluster.transactions(opened, blocked, wall_ms())


def _seen(view: GroupView, later: GroupState, delays: Sequence[groups.Delay]) -> groups.Seen:
    # If no member has partitions, the group is rebalancing, or it does not assign partitions, like the groups of Kafka Connect.
    idle = sum(not member.partitions for member in view.members) if any(member.partitions for member in view.members) else 0
    return groups.Seen(view.group, (view.state, later), len(view.members), idle, view.lags, delays)


def _min_in_sync(admin: KafkaAdmin, partitions: Sequence[PartitionInfo], timeout: float) -> dict[str, int]:
    """Return min.insync.replicas by topic, for topics with out-of-sync replicas whose settings this user may see."""
    topics = sorted({info.topic for info in partitions if len(info.isr) < len(info.replicas)})
    if not topics:
        return {}
    outcomes = admin.outcomes(
        admin.describe_configs, [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics], timeout=timeout
    )
    return {
        resource.name: int(found[_MIN_IN_SYNC].value or 1)
        for resource, found in outcomes.items()
        if not isinstance(found, KafkaError) and _MIN_IN_SYNC in found
    }


class Scope(NamedTuple):
    """The topics and groups that doctor examines.

    topics, groups: their names; () means all. timeout: seconds for each request. watch_s: how long to wait for commits of groups that are
    behind, in seconds.
    """

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    timeout: float = 5.0
    watch_s: float = _WATCH_S

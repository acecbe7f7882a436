"""Findings about a cluster that answers: its nodes, listeners, clock, leaders, replicas and open transactions. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address

from levada import ClusterDescription, KafkaError, Node, PartitionInfo, TransactionDescription
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.doctor.probe import Reached, Resolved
from levada.cli.text import counted, named
from levada.exactly_once.batch import parsed

CLOCK_LIMIT_MS = 5_000
"""Greatest clock difference that is not reported, in ms. A larger one disturbs tokens, certificates, retention and record timestamps."""
LONG_TRANSACTION_MS = 5 * 60_000
"""Age in ms from which an open transaction is reported. Most programs commit within seconds."""
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "host.docker.internal")


def members(cluster: ClusterDescription) -> list[Finding]:
    """Return the findings about the cluster's brokers and its controller."""
    about = f"cluster {cluster.cluster_id}" if cluster.cluster_id else "cluster"
    if not cluster.nodes:
        return [
            Finding(Step.METADATA, Status.FAILED, about, "the metadata names no broker", "look at the brokers' logs: do they register?")
        ]
    named_nodes = named([str(node.id) for node in cluster.nodes])
    found = [Finding(Step.METADATA, Status.OK, about, f"{counted(len(cluster.nodes), 'broker')}: {named_nodes}")]
    if cluster.controller is None:
        advice = "look at the controllers' logs: topics cannot be created or changed, and no leader is elected"
        found.append(Finding(Step.METADATA, Status.FAILED, about, "no controller is named", advice))
    return found


def clock(node: str, theirs_ms: int, before_ms: int, after_ms: int) -> Finding:
    """Compare a broker's clock with this machine's. All times are in ms since the epoch.

    theirs_ms: the broker's time. before_ms, after_ms: this machine's time before the request and after the answer.
    """
    ahead_ms = max(0, theirs_ms - after_ms) - max(0, before_ms - theirs_ms)
    if abs(ahead_ms) <= CLOCK_LIMIT_MS:
        most_ms = max(abs(theirs_ms - before_ms), abs(theirs_ms - after_ms))
        return Finding(Step.CLOCK, Status.OK, node, f"its clock differs from this machine's by at most {most_ms / 1000:.1f} s")
    direction = "ahead of" if ahead_ms > 0 else "behind"
    text = f"the broker's clock is {abs(ahead_ms) / 1000:.1f} s {direction} this machine's"
    advice = "set both clocks by NTP: certificates, tokens, retention and offsets by time are wrong by this difference"
    return Finding(Step.CLOCK, Status.FAILED, node, text, advice)


def listener(node: Node, name: Resolved, reached: Sequence[Reached], error: KafkaError | None, *, bootstrap: Iterable[str]) -> Finding:
    """Return the finding about a broker's advertised listener.

    name, reached: results of resolving its host name and of connecting to each of its addresses. error: why the broker did not answer
    a request there, or None. bootstrap: the hosts in bootstrap.servers.
    """
    about = f"broker {node.id} at {node.address}"
    if name.fault is not None:
        return Finding(Step.LISTENERS, Status.FAILED, about, f"its name does not resolve: {name.fault}", _advertised(node, bootstrap))
    if all(one.fault is not None for one in reached):
        faults = "; ".join(dict.fromkeys(str(one.fault) for one in reached))
        return Finding(Step.LISTENERS, Status.FAILED, about, f"it cannot be reached there: {faults}", _advertised(node, bootstrap))
    if error is not None:
        text = f"it accepts connections, but a request failed: {error}"
        advice = "advertised.listeners must name the listener that clients like this one use"
        return Finding(Step.LISTENERS, Status.FAILED, about, text, advice)
    return Finding(Step.LISTENERS, Status.OK, about, "it can be reached at its advertised address")


def _advertised(node: Node, bootstrap: Iterable[str]) -> str:
    if _is_local(node.host) and not any(map(_is_local, bootstrap)):
        return (
            f"the broker tells clients to connect to {node.host!r}, which is each client's own machine: "
            "set its advertised.listeners to a name that clients can resolve and reach"
        )
    return "is the broker up? If it is, set its advertised.listeners to a name and port that clients can resolve and reach"


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES


def leaders(partitions: Sequence[PartitionInfo]) -> list[Finding]:
    """Return one finding for each topic with leaderless partitions, or a single finding if all partitions have leaders."""
    without = [info for info in partitions if info.leader < 0]
    if not without:
        return [Finding(Step.LEADERS, Status.OK, "all topics", f"each of {counted(len(partitions), 'partition')} has a leader")]
    return [
        Finding(
            Step.LEADERS,
            Status.FAILED,
            f"topic {topic}",
            f"no leader for {_partitions(infos)}: nothing can be read or written there; "
            f"replicas on brokers {named(_brokers(info.replicas for info in infos))}",
            "start the brokers that have the replicas; if these are lost for good, run an unclean election, which may lose records",
        )
        for topic, infos in _by_topic(without).items()
    ]


def replicas(partitions: Sequence[PartitionInfo], min_in_sync: Mapping[str, int]) -> list[Finding]:
    """Return the findings about out-of-sync replicas, of partitions that have a leader.

    min_in_sync: min.insync.replicas by topic; 1 is assumed for topics that are missing.
    """
    led = [info for info in partitions if info.leader >= 0]
    few = [info for info in led if len(info.isr) < min_in_sync.get(info.topic, 1)]
    lagging = [info for info in led if len(info.isr) < len(info.replicas) and info not in few]
    found = [
        Finding(
            Step.REPLICAS,
            Status.FAILED,
            f"topic {topic}",
            f"fewer replicas in sync than min.insync.replicas={min_in_sync.get(topic, 1)} in {_partitions(infos)}: "
            f"writes with acks=all are refused; out of sync: brokers {named(_out_of_sync(infos))}",
            "start those brokers, or find in their logs why they do not catch up",
        )
        for topic, infos in _by_topic(few).items()
    ]
    found += [
        Finding(
            Step.REPLICAS,
            Status.WARNING,
            f"topic {topic}",
            f"replicas out of sync in {_partitions(infos)}: on brokers {named(_out_of_sync(infos))}",
            "start those brokers, or find in their logs why they do not catch up",
        )
        for topic, infos in _by_topic(lagging).items()
    ]
    return found or [Finding(Step.REPLICAS, Status.OK, "all topics", "all replicas of partitions with a leader are in sync")]


def transactions(opened: Mapping[str, TransactionDescription], now_ms: int) -> list[Finding]:
    """Return the findings about open transactions.

    opened: descriptions by transactional id. now_ms: this machine's time in ms since the epoch.
    """
    long = {name: found for name, found in opened.items() if now_ms - (found.start_time_ms or now_ms) > LONG_TRANSACTION_MS}
    if not long:
        ages_s = {name: max(0, now_ms - (found.start_time_ms or now_ms)) // 1000 for name, found in opened.items()}
        some = [f"{name} for {ages_s[name]} s" for name in sorted(ages_s, key=lambda name: -ages_s[name])]
        text = f"{counted(len(opened), 'transaction')} open, none for long"
        return [Finding(Step.TRANSACTIONS, Status.OK, "all transactions", f"{text}: {named(some)}" if some else text)]
    return [_transaction(name, found, now_ms) for name, found in sorted(long.items())]


def _transaction(name: str, found: TransactionDescription, now_ms: int) -> Finding:
    minutes = (now_ms - (found.start_time_ms or now_ms)) // 60_000
    partitions = sorted(tp for tp in found.partitions if not tp.topic.startswith("__"))
    text = f"open for {minutes} min: readers with isolation.level=read_committed wait, in {named(list(map(str, partitions))) or 'no topic'}"
    slot = parsed(name)
    if slot is None:
        advice = (
            f"look for the program with transactional.id={name}: it hangs, or should commit more often. `levada transactions abort {name}` "
            "ends the transaction and fences the program; the coordinator does so after transaction.timeout.ms"
        )
    else:
        advice = (
            f"the Spark sink {slot[0]} opened it: start its query again, or abort its open transactions with "
            f"`levada spark transactions abort {slot[0]}`; the coordinator aborts it after transaction.timeout.ms"
        )
    return Finding(Step.TRANSACTIONS, Status.WARNING, f"transaction {name}", f"{text}; timeout {found.timeout_ms // 60_000} min", advice)


def _by_topic(partitions: Iterable[PartitionInfo]) -> dict[str, list[PartitionInfo]]:
    found: dict[str, list[PartitionInfo]] = {}
    for info in sorted(partitions):
        found.setdefault(info.topic, []).append(info)
    return found


def _partitions(infos: Sequence[PartitionInfo]) -> str:
    return f"{'partition' if len(infos) == 1 else 'partitions'} {named([str(info.partition) for info in infos])}"


def _brokers(ids: Iterable[Iterable[int]]) -> list[str]:
    return [str(broker) for broker in sorted({broker for some in ids for broker in some})]


def _out_of_sync(infos: Iterable[PartitionInfo]) -> list[str]:
    return _brokers(set(info.replicas) - set(info.isr) for info in infos)

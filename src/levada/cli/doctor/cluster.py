"""Findings about a cluster that answers: its nodes, listeners, clock, leaders, replicas and open transactions. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address

from levada import ClusterDescription, KafkaError, Node, PartitionInfo, TopicPartition, TransactionDescription
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.doctor.probe import Reached, Resolved
from levada.cli.text import counted, named
from levada.exactly_once.batch import parsed

CLOCK_LIMIT_MS = 5_000
"""Greatest clock difference that is not reported, in ms. A larger one disturbs tokens, certificates, retention and record timestamps."""
LONG_TRANSACTION_MS = 5 * 60_000
"""Age in ms from which an open transaction is reported. Most programs commit within seconds."""
_MINUTES_FROM_MS = 120_000
"""Lengths of time from this on are told in minutes, shorter ones in seconds."""
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


def leaders(partitions: Sequence[PartitionInfo]) -> Finding:
    """Return the finding about partitions without a leader."""
    without = [info for info in partitions if info.leader < 0]
    if not without:
        return Finding(Step.LEADERS, Status.OK, "all topics", f"each of {counted(len(partitions), 'partition')} has a leader")
    on = _brokers(info.replicas for info in without)
    text = f"no leader for {_partitions(without)}: nothing can be read or written there; replicas on {on}"
    if all(len(info.replicas) == 1 for info in without):
        advice = "start these brokers: no other has a replica"
    else:
        first = min(without)
        advice = (
            "start the brokers that have the replicas; if these are lost for good, let another replica lead, which may lose records: "
            f"`levada cluster elect-leaders {first.topic}:{first.partition} --unclean`"
        )
    return Finding(Step.LEADERS, Status.FAILED, _topics(without), text, advice)


def replicas(partitions: Sequence[PartitionInfo], min_in_sync: Mapping[str, int], brokers: Collection[int]) -> list[Finding]:
    """Return the findings about brokers that are down, and about out-of-sync replicas of partitions that have a leader.

    min_in_sync: min.insync.replicas by topic; 1 is assumed for topics that are missing. brokers: ids of the brokers that are up.
    """
    found = [_down(broker, partitions) for broker in sorted({one for info in partitions for one in info.replicas} - set(brokers))]
    short = [info for info in partitions if info.leader >= 0 and len(info.isr) < len(info.replicas)]
    few: dict[int, list[PartitionInfo]] = {}
    late: dict[tuple[int, ...], list[PartitionInfo]] = {}
    for info in short:
        out = set(info.replicas) - set(info.isr)
        if len(info.isr) < (least := min_in_sync.get(info.topic, 1)):
            few.setdefault(least, []).append(info)
        elif up := out & set(brokers):
            late.setdefault(tuple(sorted(up)), []).append(info)
    found += [
        Finding(
            Step.REPLICAS,
            Status.FAILED,
            _topics(infos),
            f"fewer replicas in sync than min.insync.replicas={least} in {_partitions(infos)}: "
            f"writes with acks=all are refused; out of sync: {_brokers(set(info.replicas) - set(info.isr) for info in infos)}",
            "start those brokers, or find in their logs why they do not catch up",
        )
        for least, infos in sorted(few.items())
    ]
    found += [
        Finding(
            Step.REPLICAS,
            Status.WARNING,
            _topics(infos),
            f"replicas out of sync on {_brokers([out])}: {_partitions(infos)}",
            "find in the logs of those brokers why they do not catch up",
        )
        for out, infos in sorted(late.items())
    ]
    return found or [Finding(Step.REPLICAS, Status.OK, "all topics", "all replicas of partitions with a leader are in sync")]


def _down(broker: int, partitions: Sequence[PartitionInfo]) -> Finding:
    there = [info for info in partitions if broker in info.replicas]
    text = f"it is down, or was removed: it has replicas of {counted(len(there), 'partition')} of {_topics(there)}"
    advice = "start it, or find in its log why it ended; `levada cluster nodes --fenced` prints its address (Kafka 4.0)"
    return Finding(Step.REPLICAS, Status.WARNING, f"broker {broker}", text, advice)


def transactions(opened: Mapping[str, TransactionDescription], blocked: Collection[TopicPartition], now_ms: int) -> list[Finding]:
    """Return the findings about open transactions.

    opened: descriptions by transactional id. blocked: partitions in which groups wait for the end of a transaction. now_ms: this machine's
    time in ms since the epoch.
    """
    reported = {
        name: found
        for name, found in opened.items()
        if now_ms - (found.start_time_ms or now_ms) > LONG_TRANSACTION_MS or not set(blocked).isdisjoint(found.partitions)
    }
    unknown = sorted(set(blocked) - {tp for found in opened.values() for tp in found.partitions})
    findings = [_transaction(name, found, now_ms) for name, found in sorted(reported.items())]
    if unknown:
        findings.append(
            Finding(
                Step.TRANSACTIONS,
                Status.WARNING,
                named([str(tp) for tp in unknown]),
                "groups wait for the end of a transaction, and no coordinator names one that is open here",
                f"`levada transactions find-hanging -t {unknown[0].topic}` prints a transaction that no coordinator will end, and "
                "`levada transactions abort` with its topic, partition and start offset ends it",
            )
        )
    if findings:
        return findings
    if not opened:
        return [Finding(Step.TRANSACTIONS, Status.OK, "all transactions", "none is open")]
    ages_ms = {name: max(0, now_ms - (found.start_time_ms or now_ms)) for name, found in opened.items()}
    some = [f"{name} for {_time(ages_ms[name])}" for name in sorted(ages_ms, key=lambda name: -ages_ms[name])]
    text = f"{counted(len(opened), 'transaction')} open, none for long: {named(some)}"
    return [Finding(Step.TRANSACTIONS, Status.OK, "all transactions", text)]


def _transaction(name: str, found: TransactionDescription, now_ms: int) -> Finding:
    age_ms = max(0, now_ms - (found.start_time_ms or now_ms))
    partitions = sorted(tp for tp in found.partitions if not tp.topic.startswith("__"))
    where = named(list(map(str, partitions))) or "no topic"
    text = f"open for {_time(age_ms)}: readers with isolation.level=read_committed wait, in {where}"
    ends = f"its coordinator aborts it in {_time(max(0, found.timeout_ms - age_ms))}"
    slot = parsed(name)
    if slot is None:
        advice = (
            f"look for the program with transactional.id={name}: it hangs, or should commit more often. `levada transactions abort {name}` "
            "ends the transaction and fences the program"
        )
    else:
        advice = (
            f"the Spark sink {slot[0]} opened it: start its query again, or abort its open transactions with "
            f"`levada spark transactions abort {slot[0]}`"
        )
    return Finding(Step.TRANSACTIONS, Status.WARNING, f"transaction {name}", f"{text}; {ends}", advice)


def _time(length_ms: int) -> str:
    return f"{length_ms // 1000} s" if length_ms < _MINUTES_FROM_MS else f"{length_ms // 60_000} min"


def _topics(infos: Iterable[PartitionInfo]) -> str:
    topics = {info.topic for info in infos}
    return f"topic {min(topics)}" if len(topics) == 1 else counted(len(topics), "topic")


def _partitions(infos: Sequence[PartitionInfo]) -> str:
    """Return the numbers of partitions of one topic, or the names of partitions of several."""
    ordered = sorted(infos)
    if len({info.topic for info in infos}) == 1:
        return f"{'partition' if len(infos) == 1 else 'partitions'} {named([str(info.partition) for info in ordered])}"
    return named([f"{info.topic}-{info.partition}" for info in ordered])


def _brokers(ids: Iterable[Iterable[int]]) -> str:
    some = sorted({broker for few in ids for broker in few})
    return f"{'broker' if len(some) == 1 else 'brokers'} {named(list(map(str, some)))}"

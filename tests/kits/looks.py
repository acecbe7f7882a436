"""Snapshots of a cluster for `levada top`, made up."""

from __future__ import annotations

from collections.abc import Iterable

from levada import ClusterDescription, GroupState, GroupType, Node, PartitionInfo, TopicPartition
from levada.cli.group_views import GroupView, MemberView
from levada.cli.lag import LogEnds, Reader, lag_of
from levada.cli.top.look import Look

NODES = tuple(Node(number, f"kafka-{number}.example", 9092) for number in (1, 2, 3))
TOPICS = ("orders", "payments", "clicks", "invoices", "page-views-of-the-shop-in-the-old-town", "audit", "refunds", "emails")
SECONDS = 2.0
"""The time between two snapshots."""


def look_number(number: int, topics: Iterable[str] = TOPICS, *, without: int = 0, faults: tuple[str, ...] = ()) -> Look:
    """Return one of a series of snapshots. without: a broker that is down, whose partitions have no leader."""
    infos, ends = [], {}
    for at, topic in enumerate(topics):
        for partition in range(3):
            leader = 1 + (at + partition) % 3
            replicas = (leader, 1 + leader % 3)
            isr = tuple(replica for replica in replicas if replica != without)
            is_down = leader == without
            infos.append(PartitionInfo(topic, partition, -1 if is_down else leader, 0, replicas, isr))
            if not is_down:
                ends[TopicPartition(topic, partition)] = LogEnds(10 * at, 1_000 * (9 - at) + number * 40 * (9 - at))
    groups = {
        "billing": _group("billing", "orders", number, ends, behind=120 + 60 * (number % 7)),
        "search-index": _group("search-index", "clicks", number, ends, behind=10),
        "flights-to-lake": _group("flights-to-lake", "payments", number, ends, behind=900, of_spark=True),
    }
    cluster = ClusterDescription("MkU3OEVBNTcwNTJENDM2Qg", NODES[0], tuple(node for node in NODES if node.id != without))
    return Look(number * SECONDS, cluster, tuple(infos), ends, groups, faults)


def _group(name: str, topic: str, number: int, ends: dict[TopicPartition, LogEnds], *, behind: int, of_spark: bool = False) -> GroupView:
    partitions = [TopicPartition(topic, partition) for partition in range(3)]
    committed = {tp: ends[tp].end - behind * (1 + tp.partition) if tp in ends else 0 for tp in partitions}
    members = (
        ()
        if of_spark
        else tuple(
            MemberView(name, f"{name}-{tp.partition}-5f1c", None, f"{name}-{tp.partition}", "/10.0.0.7", None, (tp,)) for tp in partitions
        )
    )
    readers = {tp: Reader(member.member_id, member.client_id, member.host) for member in members for tp in member.partitions}
    state = GroupState.EMPTY if of_spark else GroupState.STABLE
    assignor = "" if of_spark else "uniform"
    return GroupView(name, GroupType.CONSUMER, state, assignor, 1, members, tuple(lag_of(name, committed, ends, readers)), of_spark)

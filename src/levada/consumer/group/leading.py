"""The work of a classic group's leader: read the subscriptions, and assign partitions to each member. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.consumer.group.consumer_protocol import assignment_bytes
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, RebalanceProtocol, TopicLayout
from levada.types import TopicPartition

Layouts = dict[str, TopicLayout]


def wanted_topics(members: Mapping[str, MemberSubscription]) -> frozenset[str]:
    """Return all topics to which any member is subscribed."""
    return frozenset[str]().union(*(member.topics for member in members.values()))


def layouts(snapshot: ClusterSnapshot, topics: Iterable[str], *, with_racks: bool) -> Layouts:
    """Return the layout of each topic that exists. with_racks: whether to include the racks of replicas, because a member has a rack."""
    found = {}
    for name in topics:
        topic = snapshot.topics.get(name)
        if topic is not None and topic.partitions:
            found[name] = TopicLayout(name, _racks(snapshot, topic) if with_racks else (frozenset(),) * len(topic.partitions))
    return found


def _racks(snapshot: ClusterSnapshot, topic: TopicMetadata) -> tuple[frozenset[str], ...]:
    racks = {node.id: node.rack for node in snapshot.nodes.values() if node.rack}
    return tuple(frozenset(racks[node_id] for node_id in info.replicas if node_id in racks) for info in topic.partitions)


def have_changed(before: Layouts, topics: Iterable[str], snapshot: ClusterSnapshot, *, with_racks: bool) -> bool:
    """Return whether the partitions of a group's topics differ from `before`, the layouts at the time of the assignment.

    A topic that metadata does not have, or has with an error other than UNKNOWN_TOPIC_OR_PARTITION, counts as unchanged. with_racks:
    whether to compare the racks of the replicas as well.
    """
    known = [name for name in topics if (topic := snapshot.topics.get(name)) is not None and _is_settled(topic)]
    now = layouts(snapshot, known, with_racks=with_racks)
    return any(now.get(name) != before.get(name) for name in known)


def _is_settled(topic: TopicMetadata) -> bool:
    return topic.error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def assign(
    assignor: PartitionAssignor, topics: Layouts, members: Mapping[str, MemberSubscription], *, cooperative: bool
) -> dict[str, bytes]:
    """Return the assignment of each member, encoded. Raises the errors of the assignor, and IllegalStateError for an invalid result.

    cooperative: whether to check as well that no partition is given to a member while another member owns it (KIP-429).
    """
    given = dict(assignor.assign(topics, members))
    check(assignor.NAME, given, topics, members)
    if cooperative:
        check_handed_over(assignor.NAME, given, members)
    return {member: assignment_bytes(given.get(member, MemberAssignment(()))) for member in members}


def check(name: str, given: Mapping[str, MemberAssignment], topics: Layouts, members: Mapping[str, MemberSubscription]) -> None:
    """Raise IllegalStateError if a partition does not exist, is assigned twice, or is assigned to a member that does not exist or is not
    subscribed to its topic.

    name: the name of the assignor. given: the assignment that it returned. topics, members: the arguments that it got.
    """
    owner: dict[TopicPartition, str] = {}
    for member, assignment in given.items():
        if member not in members:
            raise IllegalStateError(f"assignor '{name}' gave partitions to {member!r}, which is no member of the group")
        for tp in assignment.partitions:
            if tp in owner:
                raise IllegalStateError(f"assignor '{name}' gave {tp} twice, to {owner[tp]!r} and {member!r}")
            if tp.topic not in members[member].topics:
                raise IllegalStateError(f"assignor '{name}' gave {tp} to {member!r}, which is not subscribed to '{tp.topic}'")
            if tp.topic not in topics or not 0 <= tp.partition < len(topics[tp.topic].racks):
                raise IllegalStateError(f"assignor '{name}' gave {tp} to {member!r}, and there is no such partition")
            owner[tp] = member


def check_handed_over(name: str, given: Mapping[str, MemberAssignment], members: Mapping[str, MemberSubscription]) -> None:
    """Raise IllegalStateError if a partition is assigned although another member still owns it: both members would read it for a while."""
    newest = max((member.generation for member in members.values()), default=-1)
    has: dict[TopicPartition, str] = {}
    for member, subscription in members.items():
        if subscription.generation == newest:
            has.update(dict.fromkeys(subscription.owned, member))
    for member, assignment in given.items():
        for tp in assignment.partitions:
            if has.get(tp, member) != member:
                raise IllegalStateError(
                    f"assignor '{name}' gave {tp} to {member!r} while {has[tp]!r} has it; a cooperative assignor leaves it out until the "
                    f"rebalance after the one in which its owner gives it up"
                )


def is_cooperative(assignor: PartitionAssignor, common: RebalanceProtocol) -> bool:
    """Whether members keep their partitions during a rebalance with this assignor."""
    return common is RebalanceProtocol.COOPERATIVE and RebalanceProtocol.COOPERATIVE in assignor.PROTOCOLS

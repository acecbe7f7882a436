"""Conversion of groups between the classic and the consumer protocol while they have members (KIP-848): pure functions.

The first member of the consumer protocol converts a classic group to a consumer group, in which the other members go on with the classic
protocol. When only those are left, the group becomes a classic group again. Members keep their partitions. The generation becomes the
epoch, or the epoch the generation.
"""

from __future__ import annotations

from levada.broker.coordinators.groups.classic_group import CONSUMER, ClassicGroup, ClassicMember, StoredGroup, StoredMember
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup, Topics
from levada.broker.coordinators.groups.consumer_member import ClassicPart, ConsumerMember, Partitions, TopicIdPartition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ProtocolError
from levada.protocol.embedded.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.prefixed import decode_prefixed, encode_prefixed, read_prefix


def to_consumer_group(classic: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """Convert a classic group to a consumer group. Raises GROUP_ID_NOT_FOUND, like Kafka, if its members are not consumers or their
    metadata cannot be decoded.
    """
    if classic.protocol_type != CONSUMER:
        raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
    group = ConsumerGroup(classic.id)
    group.epoch = group.assignment_epoch = classic.generation
    try:
        members = [_to_consumer_member(member, classic, topics) for member in classic.members.values()]
    except ProtocolError as error:
        raise _cannot_upgrade(classic, "parsing the embedded consumer protocol failed") from error
    for member in members:
        group.members[member.id] = member
        group.targets[member.id] = frozenset(member.assigned)
    return group


def to_classic_group(group: ConsumerGroup, topics: Topics, wall_ms: int) -> ClassicGroup:
    """Convert a consumer group to a classic group. All its members have to use the classic protocol."""
    members = tuple(_to_stored_member(member, topics) for member in group.members.values())
    leader = next(iter(group.members))
    classic = ClassicGroup.restored(group.id, StoredGroup(CONSUMER, group.epoch, None, leader, members, wall_ms))
    for member in group.members.values():
        assert member.classic is not None
        classic.members[member.id].protocols = member.classic.protocols
    classic.protocol_name = classic.choose_protocol()
    return classic


def assignment_bytes(member: ConsumerMember, topics: Topics) -> bytes:
    """Encode a member's assignment for the classic protocol, in the version of the member's subscription."""
    assert member.classic is not None
    found: dict[str, TopicPartition] = {}
    for owned in sorted(member.assigned):
        name = topics.name_of(owned.topic_id)
        if name is not None:
            found.setdefault(name, TopicPartition(topic=name, partitions=[])).partitions.append(owned.partition)
    version = min(read_prefix("a subscription", member.classic.protocols[0].metadata), ConsumerProtocolAssignment.NEWEST_VERSION)
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=list(found.values())), version)


def owned_by(subscription: ConsumerProtocolSubscription, topics: Topics) -> Partitions:
    """Return the partitions that a member of the classic protocol reports to own in its subscription. Topics that do not exist are left
    out.
    """
    sizes = {topic.topic: topics.find(topic.topic) for topic in subscription.owned_partitions}
    return frozenset(
        TopicIdPartition(size.id, partition)
        for topic in subscription.owned_partitions
        for partition in topic.partitions
        if (size := sizes[topic.topic]) is not None
    )


def _to_consumer_member(member: ClassicMember, group: ClassicGroup, topics: Topics) -> ConsumerMember:
    protocol = group.protocol_name or member.protocols[0].name
    subscription = decode_prefixed(ConsumerProtocolSubscription, member.metadata(protocol))
    assigned = decode_prefixed(ConsumerProtocolAssignment, member.assignment).assigned_partitions if member.assignment else []
    sizes = {topic.topic: topics.find(topic.topic) for topic in assigned}
    return ConsumerMember(
        id=member.id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        origin=member.origin,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned={
            TopicIdPartition(size.id, partition): group.generation
            for topic in assigned
            for partition in topic.partitions
            if (size := sizes[topic.topic]) is not None
        },
        classic=ClassicPart(member.session_timeout_ms, member.protocols),
    )


def _to_stored_member(member: ConsumerMember, topics: Topics) -> StoredMember:
    assert member.classic is not None
    return StoredMember(
        member.id,
        member.instance_id,
        member.origin,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols[0],
        assignment_bytes(member, topics),
    )


def _cannot_upgrade(group: ClassicGroup, reason: str) -> BrokerError:
    return BrokerError(f"Cannot upgrade classic group {group.id} to consumer group because {reason}.", code=ErrorCode.GROUP_ID_NOT_FOUND)

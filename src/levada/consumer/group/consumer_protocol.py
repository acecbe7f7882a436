"""The bytes that members of a classic group send one another in JoinGroup and SyncGroup (ConsumerProtocol in Java).

Brokers do not read them. Topics are sorted by name. Both structs are written in their newest version, which only appends fields; older
readers stop early.
"""

from __future__ import annotations

from collections.abc import Iterable

from levada.errors import ProtocolError
from levada.groups import MemberAssignment, MemberSubscription
from levada.protocol.embedded import consumer_protocol_assignment as assigned
from levada.protocol.embedded import consumer_protocol_subscription as subscribed
from levada.protocol.prefixed import decode_prefixed, encode_prefixed
from levada.types import TopicPartition
from levada.wire.varint import Bytes

SUBSCRIPTION = subscribed.ConsumerProtocolSubscription
ASSIGNMENT = assigned.ConsumerProtocolAssignment


def subscription_bytes(subscription: MemberSubscription) -> bytes:
    """Encode the subscription with which a member joins. It has no instance id, because JoinGroup has a field for that."""
    owned = [subscribed.TopicPartition(topic=name, partitions=at) for name, at in by_topic(subscription.owned).items()]
    message = SUBSCRIPTION(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=owned,
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return encode_prefixed(message, SUBSCRIPTION.NEWEST_VERSION)


def read_subscription(data: Bytes, instance_id: str | None) -> MemberSubscription:
    """Decode the subscription of a member. instance_id: from the member's entry in JoinGroup. Raises ProtocolError."""
    message = decode_prefixed(SUBSCRIPTION, data)
    return MemberSubscription(
        topics=frozenset(message.topics),
        owned=_partitions(message.owned_partitions),
        generation=message.generation_id,
        rack=message.rack_id,
        instance_id=instance_id,
        user_data=message.user_data,
    )


def assignment_bytes(assignment: MemberAssignment) -> bytes:
    """Encode the assignment that the leader sends to a member."""
    topics = [assigned.TopicPartition(topic=name, partitions=at) for name, at in by_topic(assignment.partitions).items()]
    return encode_prefixed(ASSIGNMENT(assigned_partitions=topics, user_data=assignment.user_data), ASSIGNMENT.NEWEST_VERSION)


def read_assignment(data: Bytes) -> MemberAssignment:
    """Decode the assignment of this member. If the leader has left the member out, there are no bytes, and it is empty. Raises
    ProtocolError.
    """
    if not data:
        return MemberAssignment(())
    message = decode_prefixed(ASSIGNMENT, data)
    return MemberAssignment(_partitions(message.assigned_partitions), message.user_data)


def _partitions(topics: Iterable[assigned.TopicPartition | subscribed.TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return partitions that another member has sent. Raises ProtocolError if they are invalid."""
    found = tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
    for tp in found:
        if tp.partition < 0:
            raise ProtocolError(f"a member of the group names {tp!r}; partitions are numbered from 0")
    return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, sorted."""
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found

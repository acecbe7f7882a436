"""ConsumerGroupCurrentMemberAssignment (record type 8): the current assignment of a member of a consumer group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import NEW, RecordKey, RecordValue, Struct, array, int8, int32, string, uuid


class ConsumerGroupCurrentMemberAssignmentKey(RecordKey, record_type=8):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Struct):
    """Partitions of one topic. assignment_epochs: the epoch in which the member got each of them."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=NEW, tagged="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(RecordValue, key=ConsumerGroupCurrentMemberAssignmentKey, versions="0", flexible="0+"):
    """The partitions that the member has, and those that it still has to revoke."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)

"""ShareGroupCurrentMemberAssignment (record type 14): the current assignment of a member of a share group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int8, int32, string, uuid


class ShareGroupCurrentMemberAssignmentKey(RecordKey, record_type=14):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(RecordValue, key=ShareGroupCurrentMemberAssignmentKey, versions="0", flexible="0+"):
    """The partitions the member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)

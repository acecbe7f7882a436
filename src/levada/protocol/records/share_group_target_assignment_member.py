"""ShareGroupTargetAssignmentMember (record type 13): the target assignment of a member of a share group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int32, string, uuid


class ShareGroupTargetAssignmentMemberKey(RecordKey, record_type=13):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(RecordValue, key=ShareGroupTargetAssignmentMemberKey, versions="0", flexible="0+"):
    """The member's part of the target assignment."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)

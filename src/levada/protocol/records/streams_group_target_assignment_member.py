"""StreamsGroupTargetAssignmentMember (record type 21): the target tasks of a member of a streams group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int32, string


class StreamsGroupTargetAssignmentMemberKey(RecordKey, record_type=21):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class TaskIds(Struct):
    """Tasks of one subtopology, by partition."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(RecordValue, key=StreamsGroupTargetAssignmentMemberKey, versions="0", flexible="0+"):
    """The member's part of the target assignment."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)

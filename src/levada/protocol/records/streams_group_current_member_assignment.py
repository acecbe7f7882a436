"""StreamsGroupCurrentMemberAssignment (record type 22): the current tasks of a member of a streams group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import NEW, RecordKey, RecordValue, Struct, array, int8, int32, string


class StreamsGroupCurrentMemberAssignmentKey(RecordKey, record_type=22):
    """The key of the record: the ids of the group and the member."""

    group_id: str = string("0")
    member_id: str = string("0")


class TaskIds(Struct):
    """Tasks of one subtopology. assignment_epochs: the epoch in which the member got each of them."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=NEW, tagged="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(RecordValue, key=StreamsGroupCurrentMemberAssignmentKey, versions="0", flexible="0+"):
    """The tasks that the member has, and those that it still has to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds)

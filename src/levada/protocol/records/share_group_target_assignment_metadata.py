"""ShareGroupTargetAssignmentMetadata (record type 12): the epoch of a share group's target assignment.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string


class ShareGroupTargetAssignmentMetadataKey(RecordKey, record_type=12):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class ShareGroupTargetAssignmentMetadataValue(RecordValue, key=ShareGroupTargetAssignmentMetadataKey, versions="0", flexible="0+"):
    """assignment_timestamp: when the assignment was computed, in milliseconds since the epoch."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tagged="0+", tag=0, ignorable=True)

"""ConsumerGroupTargetAssignmentMetadata (record type 6): the epoch of a consumer group's target assignment.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string


class ConsumerGroupTargetAssignmentMetadataKey(RecordKey, record_type=6):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(RecordValue, key=ConsumerGroupTargetAssignmentMetadataKey, versions="0", flexible="0+"):
    """assignment_timestamp: when the assignment was computed, in milliseconds since the epoch."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tagged="0+", tag=0, ignorable=True)

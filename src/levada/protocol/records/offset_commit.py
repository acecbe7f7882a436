"""OffsetCommit (record type 1): a committed offset in __consumer_offsets.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string, uuid


class OffsetCommitKey(RecordKey, record_type=1):
    """The group, topic and partition of the offset."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(RecordValue, key=OffsetCommitKey, versions="0-4", flexible="4+"):
    """Only version 1 has expire_timestamp. In other versions the broker's retention applies."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tagged="4+", tag=0, ignorable=True)

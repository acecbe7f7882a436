"""LegacyOffsetCommit (record type 0): a committed offset, in the oldest format.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, int32, int64, string


class LegacyOffsetCommitKey(RecordKey, record_type=0):
    """The group, topic and partition of the offset."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class LegacyOffsetCommitValue(RecordValue, key=LegacyOffsetCommitKey, versions="0"):
    """commit_timestamp: milliseconds since the epoch."""

    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")

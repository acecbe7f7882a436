"""ShareSnapshot (record type 0): the full state of a share group in a partition; a record of __share_group_state.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(RecordKey, record_type=0):
    """A share group and a partition."""

    group_id: str = string("0")
    topic_id: UUID = uuid("0")
    partition: int = int32("0")


class StateBatch(Struct):
    """Offsets that share a state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(RecordValue, key=ShareSnapshotKey, versions="0", flexible="0+"):
    """snapshot_epoch counts snapshots; state_epoch and leader_epoch fence older writers. Times are in milliseconds since the epoch."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tagged="0+", tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)

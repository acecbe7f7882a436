"""TransactionLog (record type 0): a transactional id in __transaction_state.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(RecordKey, record_type=0):
    """The transactional id."""

    transactional_id: str = string("0")


class PartitionsSchema(Struct):
    """The partitions of one topic that are in the transaction."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(RecordValue, key=TransactionLogKey, versions="0-1", flexible="1+"):
    """transaction_status: 0 empty, 1 ongoing, 2 preparing commit, 3 preparing abort, 4 committed, 5 aborted, 6 dead, 7 fencing."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tagged="1+", tag=0)
    next_producer_id: int = int64("1+", default=-1, tagged="1+", tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tagged="1+", tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tagged="1+", tag=2)

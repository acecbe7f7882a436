"""The marker that ends a transaction in a partition: a control batch with one record, written by the transaction coordinator."""

from __future__ import annotations

import struct
from typing import NamedTuple

from levada.protocol.prefixed import decode_prefixed, encode_prefixed
from levada.protocol.records.control_record_type_schema import ControlRecordTypeSchema
from levada.protocol.records.end_txn_marker import EndTxnMarker
from levada.record.batch import RecordBatch
from levada.record.builder import RecordBatchBuilder
from levada.record.header import CONTROL, CRC_FROM, TRANSACTIONAL, seal, set_producer_state

ABORT, COMMIT = 0, 1
_VERSION = 0
_NO_SEQUENCE = -1


class EndTransactionMarker(NamedTuple):
    """A control record that commits or aborts the transaction of a producer.

    coordinator_epoch: the epoch of the transaction coordinator that wrote the marker. strict: whether the marker's producer epoch must be
    higher than that of the transaction's records (transaction.version 2).
    """

    producer_id: int
    epoch: int
    committed: bool
    coordinator_epoch: int
    strict: bool = False

    def encode(self, timestamp: int) -> RecordBatch:
        """Return the marker as a control batch with its checksum. timestamp: milliseconds since the epoch."""
        builder = RecordBatchBuilder()
        kind = ControlRecordTypeSchema(type=COMMIT if self.committed else ABORT)
        end = EndTxnMarker(coordinator_epoch=self.coordinator_epoch)
        builder.append(timestamp, encode_prefixed(kind, _VERSION), encode_prefixed(end, _VERSION), [])
        data = builder.build()
        set_producer_state(data, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=_NO_SEQUENCE)
        struct.pack_into(">h", data, CRC_FROM, TRANSACTIONAL | CONTROL)
        seal(data)
        return RecordBatch(memoryview(data))


def read_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker in a batch, None if the batch has no transaction marker."""
    kind = batch.control_type()
    if kind not in (ABORT, COMMIT):
        return None
    end = decode_prefixed(EndTxnMarker, batch.walker().records()[0].value or b"")
    return EndTransactionMarker(batch.producer_id, batch.producer_epoch, kind == COMMIT, end.coordinator_epoch)

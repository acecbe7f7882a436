"""Record batches that seal_arrow() has made, perhaps in another process, and that the producer only has to send."""

from __future__ import annotations

from levada.errors import CorruptRecordError, ProtocolError, RecordTooLargeError
from levada.record.batch import HEADER_SIZE, RecordBatch
from levada.record.header import AFTER_LENGTH, MAGIC, MAGIC_AT
from levada.types import SealedBatch, TopicPartition

NO_PRODUCER = -1


class Sealed:
    """One sealed batch (Contents in `producer_batch`). `data` must be a copy: the producer writes its producer id into it."""

    def __init__(self, tp: TopicPartition, data: bytearray, records_count: int) -> None:
        self.tp = tp
        self.records_count = records_count
        self.records_size = len(data) - HEADER_SIZE
        # 0 means unknown. Only decompressing the records would tell.
        self.largest_record = 0
        self._data = data

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return HEADER_SIZE + self.records_size

    def build(self) -> bytearray:
        """Return the encoded batch."""
        return self._data


def checked(batch: SealedBatch, max_request_size: int) -> Sealed:
    """Check a batch that may come from another process, and return a copy for the producer. max_request_size: bytes.

    Raises CorruptRecordError unless the data is exactly one data batch of magic 2, with a correct checksum, without a producer id, without
    gaps in its offsets, and with as many records as `batch` says, at least one. Raises RecordTooLargeError if the data exceeds
    max.request.size.
    """
    tp = TopicPartition(batch.topic, batch.partition)
    what = f"sealed batch for {tp} ({len(batch.data)} bytes)"
    if len(batch.data) > max_request_size:
        raise RecordTooLargeError(f"{what}: more than max.request.size={max_request_size}; seal smaller batches (batch.size), or raise it")
    if len(batch.data) < HEADER_SIZE or batch.data[MAGIC_AT] != MAGIC:
        raise CorruptRecordError(f"{what}: no record batch of magic {MAGIC}")
    try:
        found = RecordBatch(memoryview(batch.data))
        found.verify_crc()
    except ProtocolError as fault:
        raise CorruptRecordError(f"{what}: {fault}") from fault
    faults = {
        "its length does not fit": found.batch_length + AFTER_LENGTH != len(batch.data),
        "a control batch": found.is_control,
        "it has a producer id already": found.producer_id != NO_PRODUCER or found.base_sequence != NO_PRODUCER,
        "its number of records does not fit": found.records_count != batch.records_count
        or found.last_offset_delta + 1 != batch.records_count,
        "it is empty": batch.records_count < 1,
    }
    for fault_text, is_so in faults.items():
        if is_so:
            raise CorruptRecordError(f"{what}: {fault_text}; give what seal_arrow() has returned")
    return Sealed(tp, bytearray(batch.data), batch.records_count)

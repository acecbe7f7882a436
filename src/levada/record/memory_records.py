"""The batches in the bytes of a fetch response or a log segment, one after the other, whatever their magic (MemoryRecords in Java)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from levada.errors import CorruptRecordError
from levada.record.batch import RecordBatch
from levada.record.compression import Buffer
from levada.record.header import AFTER_LENGTH, LEAST_LENGTH, MAGIC, MAGIC_AT

_PREFIX = struct.Struct(">qi")


def read_batches(data: Buffer, at: int = 0) -> Iterator[RecordBatch]:
    """Yield the batches in `data`, beginning at position `at`. Raises CorruptRecordError.

    An incomplete batch at the end is ignored, because brokers cut a fetch response at the byte limit. Message sets from before Kafka 0.11
    are yielded as record batches, too (levada.record.legacy.batch).
    """
    view = memoryview(data)
    end = len(view)
    while end - at > MAGIC_AT:
        base_offset, length = _PREFIX.unpack_from(view, at)
        magic = view[at + MAGIC_AT]
        if magic > MAGIC or length < LEAST_LENGTH[magic]:
            raise _not_a_batch(base_offset, length, magic, at)
        if AFTER_LENGTH + length > end - at:
            return
        batch = RecordBatch(view[at : at + AFTER_LENGTH + length]) if magic == MAGIC else _message_set(view, at)
        yield batch
        at += len(batch.data)


def _not_a_batch(base_offset: int, length: int, magic: int, at: int) -> CorruptRecordError:
    fault = f"unknown magic {magic}" if magic > MAGIC else f"a length of {length} bytes is less than the header"
    return CorruptRecordError(f"record batch at offset {base_offset} (byte {at}): {fault}")


def _message_set(view: memoryview, at: int) -> RecordBatch:
    # Only old brokers and old topics have message sets; most programs never load this module.
    from levada.record.legacy.batch import read_message_set

    return read_message_set(view, at)

"""The batches in the bytes of a fetch response or a log segment, one after the other, whatever their magic (MemoryRecords in Java)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from levada.errors import CorruptRecordError
from levada.record.batch import RecordBatch
from levada.record.compression import Buffer
from levada.record.header import AFTER_LENGTH, LAST_OFFSET_DELTA_AT, LEAST_LENGTH, MAGIC, MAGIC_AT
from levada.types import UNKNOWN_OFFSET

_PREFIX = struct.Struct(">qi")
_INT32 = struct.Struct(">i")


def read_batches(data: Buffer, at: int = 0) -> Iterator[RecordBatch]:
    """Yield the batches in `data`, beginning at position `at`. Raises CorruptRecordError.

    An incomplete batch at the end is ignored, because brokers cut a fetch response at the byte limit. Message sets from before Kafka 0.11
    are yielded as record batches, too (levada.record.legacy.batch).
    """
    view = memoryview(data)
    while (found := _batch_at(view, at)) is not None:
        _, size, magic = found
        batch = RecordBatch(view[at : at + size]) if magic == MAGIC else _message_set(view, at)
        yield batch
        at += len(batch.data)


def offset_after_last_batch(data: Buffer) -> tuple[int, bool]:
    """Return the offset after all complete batches, read from their headers, and whether all headers are valid.

    Batches from the first invalid header on do not count. UNKNOWN_OFFSET if there is no complete batch.
    """
    view, at, after = memoryview(data), 0, UNKNOWN_OFFSET
    try:
        while (found := _batch_at(view, at)) is not None:
            base_offset, size, magic = found
            # The wrapper message of a compressed message set has the offset of its last message.
            delta = _INT32.unpack_from(view, at + LAST_OFFSET_DELTA_AT)[0] if magic == MAGIC else 0
            # The highest one, in case a log is out of order: else a reader would fetch some batches again.
            after = max(after, base_offset + delta + 1)
            at += size
    except CorruptRecordError:
        return after, False
    return after, True


def is_cut(data: Buffer) -> bool:
    """Whether the data end before the first batch or message is complete."""
    return len(data) < AFTER_LENGTH or AFTER_LENGTH + _PREFIX.unpack_from(data)[1] > len(data)


def _batch_at(view: memoryview, at: int) -> tuple[int, int, int] | None:
    """Return base offset, size in bytes and magic of the batch, or message, at a position. None if it is incomplete, or at the end.

    Raises CorruptRecordError.
    """
    left = len(view) - at
    if left <= MAGIC_AT:
        return None
    base_offset, length = _PREFIX.unpack_from(view, at)
    magic = view[at + MAGIC_AT]
    if magic > MAGIC or length < LEAST_LENGTH[magic]:
        raise _not_a_batch(base_offset, length, magic, at)
    size = AFTER_LENGTH + length
    return (base_offset, size, magic) if size <= left else None


def _not_a_batch(base_offset: int, length: int, magic: int, at: int) -> CorruptRecordError:
    fault = f"unknown magic {magic}" if magic > MAGIC else f"a length of {length} bytes is less than the header"
    return CorruptRecordError(f"record batch at offset {base_offset} (byte {at}): {fault}")


def _message_set(view: memoryview, at: int) -> RecordBatch:
    # Only old brokers and old topics have message sets; most programs never load this module.
    from levada.record.legacy.batch import read_message_set

    return read_message_set(view, at)

"""The header of a record batch of magic 2: the positions of its fields, its checksum, and changes of fields in place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

from levada.record.compression import Buffer, Codec, compress
from levada.wire.crc import shifted

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC = 2
MAGIC_AT = 16
# The length field counts the bytes after itself.
AFTER_LENGTH = 12
# The smallest valid length by magic: that of an empty message, or of an empty batch.
LEAST_LENGTH = (14, 22, HEADER_SIZE - AFTER_LENGTH)
CRC_FROM = 21
LAST_OFFSET_DELTA_AT = 23
_LENGTH_AT = 8
_EPOCH_AT = 12
_CRC_AT = 17
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43

CODEC_BITS = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_MAX_INT = 2**31 - 1


def finish_batch(
    records: bytearray | memoryview,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> bytearray:
    """Return a complete batch with its header and checksum.

    records: HEADER_SIZE unused bytes, followed by the encoded records. Without a codec, a bytearray is not copied but becomes the batch.
    count: the number of records. level: see compression.compress().
    """
    if codec:
        batch = bytearray(HEADER_SIZE)
        with memoryview(records) as view:
            batch += compress(codec, view[HEADER_SIZE:], level)
    else:
        batch = records if isinstance(records, bytearray) else bytearray(records)
    length = len(batch) - AFTER_LENGTH
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, codec, count - 1, base_timestamp, max_timestamp, -1, -1, -1, count)
    seal(batch)
    return batch


def compressed_anew(batch: Buffer, codec: Codec, level: int | None, records: Buffer, max_timestamp: int) -> bytearray:
    """Return a copy of a batch whose records are compressed with `codec`, and which has another max_timestamp.

    Only length and checksum change with them. records: the batch's records, decompressed. level: see compression.compress().
    """
    anew = bytearray(batch[:HEADER_SIZE])
    anew += compress(codec, records, level)
    (attributes,) = struct.unpack_from(">h", anew, CRC_FROM)
    struct.pack_into(">i", anew, _LENGTH_AT, len(anew) - AFTER_LENGTH)
    struct.pack_into(">h", anew, CRC_FROM, attributes & ~CODEC_BITS | codec)
    struct.pack_into(">q", anew, _MAX_TIMESTAMP_AT, max_timestamp)
    seal(anew)
    return anew


def checksum(data: Buffer) -> int:
    """Return the CRC-32C checksum of `data`."""
    return _crc32c(data)


def _crc32c(data: Buffer) -> int:
    """Load the CRC-32C function at its first use, and replace this function by it."""
    crc32c: Callable[[Buffer], int] = _load_crc32c()
    globals()["_crc32c"] = crc32c
    return crc32c(data)


def _load_crc32c() -> Any:
    """Return the function of the package crc32c, if possible without running the package's __init__.

    The __init__ looks up the package's version with importlib.metadata, which takes 35 ms, more than the rest of a first poll.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        compiled = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if compiled is not None and compiled.loader is not None:
            module = module_from_spec(compiled)
            compiled.loader.exec_module(module)
            return module.crc32c
    from crc32c import crc32c

    return crc32c


def seal(batch: bytearray | memoryview) -> None:
    """Compute the batch's checksum and write it into the header."""
    with memoryview(batch) as view:
        struct.pack_into(">I", batch, _CRC_AT, checksum(view[CRC_FROM:]))


def set_producer_state(
    batch: bytearray, *, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
) -> None:
    """Write the producer's id, epoch and base sequence, and whether the batch belongs to a transaction, into a sealed batch.

    The checksum is updated without reading the records.
    """
    before = _header_checksum(batch)
    (attributes,) = struct.unpack_from(">h", batch, CRC_FROM)
    attributes = attributes | TRANSACTIONAL if is_transactional else attributes & ~TRANSACTIONAL
    struct.pack_into(">h", batch, CRC_FROM, attributes)
    struct.pack_into(">qhi", batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    (sealed,) = struct.unpack_from(">I", batch, _CRC_AT)
    struct.pack_into(">I", batch, _CRC_AT, sealed ^ shifted(before ^ _header_checksum(batch), len(batch) - HEADER_SIZE))


def _header_checksum(batch: bytearray) -> int:
    return checksum(batch[CRC_FROM:HEADER_SIZE])


def assign_offsets(batch: bytearray | memoryview, *, base_offset: int, leader_epoch: int, log_append_time_ms: int | None = None) -> None:
    """Set a batch's base offset, leader epoch and LogAppendTime, as a broker does when it appends the batch to its log.

    log_append_time_ms: the time that replaces the records' timestamps, in ms since the epoch; None to keep them. Only this time requires a
    new checksum.
    """
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, _EPOCH_AT, leader_epoch)
    if log_append_time_ms is None:
        return
    (attributes,) = struct.unpack_from(">h", batch, CRC_FROM)
    struct.pack_into(">h", batch, CRC_FROM, attributes | LOG_APPEND_TIME)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, log_append_time_ms)
    seal(batch)


def next_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number of the record that is `increment` records later. The number after 2^31 - 1 is 0."""
    return sequence + increment if sequence <= _MAX_INT - increment else increment - (_MAX_INT - sequence) - 1

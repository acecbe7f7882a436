"""Record batches for tests: built from records, forged field by field, and taken apart again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from levada.record.batch import Record, RecordBatch, seal
from levada.record.builder import RecordBatchBuilder
from levada.record.compression import Codec, compress
from levada.record.header import AFTER_LENGTH, HEADER
from levada.record.memory_records import read_batches
from levada.wire.varint import encode_varint

CODECS = list(Codec)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
# What Java puts behind flags 0x60 and block size 0x40 with magic 0 (KIP-57); the right one is 0x82.
OLD_LZ4_CHECKSUM = 0x1A
NOW_MS = 1_700_000_000_000

HEADER_FIELDS = {
    "base_offset": 0,
    "batch_length": None,
    "partition_leader_epoch": -1,
    "magic": 2,
    "crc": 0,
    "attributes": 0,
    "last_offset_delta": 0,
    "base_timestamp": NOW_MS,
    "max_timestamp": NOW_MS,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "records_count": 1,
}

headers = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=6)), max_size=3).map(tuple)
records = st.lists(
    st.tuples(
        st.integers(0, 2**50),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        headers,
    ),
    min_size=1,
    max_size=40,
)


def build(rows: Iterable[tuple[Any, ...]], codec: Codec = Codec.NONE, **options: Any) -> bytearray:
    """rows: (timestamp, key, value, headers), the last one optional."""
    builder = RecordBatchBuilder(codec, **options)
    for row in rows:
        builder.append(*row)
    return builder.build()


def only_batch(data: Any) -> RecordBatch:
    (batch,) = read_batches(data)
    return batch


def values(count: int, size: int = 10) -> list[tuple[int, None, bytes]]:
    return [(NOW_MS + row, None, f"{row:0{size}}".encode()) for row in range(count)]


def as_rows(found: Iterable[Record]) -> list[tuple[Any, ...]]:
    return [tuple(record[1:]) for record in found]


def forge(payload: bytes, *, codec: Codec = Codec.NONE, **fields: int) -> bytearray:
    """A batch with exactly these bytes as its records and these header fields, under a valid checksum."""
    body = bytes(compress(codec, payload))
    header = HEADER_FIELDS | {"batch_length": HEADER.size + len(body) - AFTER_LENGTH, "attributes": int(codec)} | fields
    batch = bytearray(HEADER.pack(*header.values()) + body)
    seal(batch)
    return batch


def raw_record(
    *,
    timestamp: int = 0,
    offset: int = 0,
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\x00",
    length: int | None = None,
) -> bytes:
    """A record of raw fields: key and value with their length, headers with their count."""
    body = b"\x00" + encode_varint(timestamp) + encode_varint(offset) + key + value + headers
    return encode_varint(len(body) if length is None else length) + body


def raw_message(
    offset: int,
    magic: int,
    key: bytes | None = None,
    value: bytes | None = b"v",
    *,
    timestamp: int = NOW_MS,
    attributes: int = 0,
    crc: int | None = None,
    size: int | None = None,
    fields: bytes | None = None,
) -> bytes:
    """One entry of a message set, field by field. fields: key and value with their lengths."""
    body = bytes((magic, attributes)) + (struct.pack(">q", timestamp) if magic else b"")
    body += _int_field(key) + _int_field(value) if fields is None else fields
    head = struct.pack(">I", zlib.crc32(body) if crc is None else crc)
    return struct.pack(">qi", offset, len(head + body) if size is None else size) + head + body


def _int_field(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def raw_wrapper(offset: int, magic: int, codec: Codec, inside: bytes, *, attributes: int = 0, **options: Any) -> bytes:
    """A compressed message around `inside`; lz4 with the header that the magic asks for."""
    packed = bytearray(compress(codec, inside))
    if codec is Codec.LZ4 and not magic:
        packed[6] = OLD_LZ4_CHECKSUM
    return raw_message(offset, magic, None, bytes(packed), attributes=int(codec) | attributes, **options)

"""Decodes and encodes record batches with levada, and measures the limits: memcpy, pyarrow's copy, the codec library alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cramjam
import lz4.frame
import pyarrow as pa
import zstandard

from levada.record.batch import HEADER_SIZE, RecordBatch, assign_offsets
from levada.record.builder import RecordBatchBuilder
from levada.record.columnar import COLUMNS, ColumnDecoder, EncodedBatch, PartitionChoice, seal_rows, sort_columns
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.types import TopicPartition
from payloads import DISTINCT, values

BATCH_BYTES = 262_144
DATA_BYTES = 4 * 1024 * 1024
NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("bench", 0)
KEYS = 1_000


@dataclass(frozen=True)
class Material:
    """The same records in every form that a case needs: about 4 MiB, in batches of 256 KiB before compression."""

    size: int
    codec: Codec

    @cached_property
    def values(self) -> list[bytes]:
        """The records' values."""
        distinct = values(self.size)
        return [distinct[row % DISTINCT] for row in range(DATA_BYTES // self.size)]

    @cached_property
    def count(self) -> int:
        """How many records there are."""
        return len(self.values)

    @cached_property
    def table(self) -> pa.Table:
        """Keys, values and timestamps as Arrow columns."""
        keys = [f"key-{row % KEYS}".encode() for row in range(self.count)]
        timestamps = [NOW_MS + row // 10 for row in range(self.count)]
        columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(self.values, pa.binary())}
        return pa.table(columns | {"timestamp": pa.array(timestamps, pa.int64())})

    @cached_property
    def data(self) -> bytes:
        """The record batches one after the other, as in a fetch response, without keys and with offsets from 0 on."""
        batches, base = [], 0
        for made in encode_rows(self, timestamp="timestamp"):
            assign_offsets(made.data, base_offset=base, leader_epoch=0)
            batches.append(made.data)
            base += made.record_count
        return b"".join(batches)


def encode_rows(material: Material, key: str | None = None, timestamp: str | None = None, partitions: int = 1) -> Iterator[EncodedBatch]:
    """Encode the columns as batches of partitions: by key, or all rows in partition 0."""
    choice = PartitionChoice(partitions, next_sticky=lambda: (0, BATCH_BYTES - HEADER_SIZE))
    columns = {"key": key, "value": "value", "timestamp": timestamp}
    rows, _ = sort_columns(material.table, columns, choice, batch_size=BATCH_BYTES, max_record_size=BATCH_BYTES, now_ms=NOW_MS)
    return seal_rows(rows, material.codec, None, BATCH_BYTES)


def decode(material: Material) -> dict[str, Callable[[], int]]:
    """Return levada's ways to decode record batches. Only the last one verifies checksums, and it does nothing else."""
    data = material.data

    def columns(decoder: ColumnDecoder) -> int:
        for batch in read_batches(data):
            decoder.add(batch, "bench", 0)
        return decoder.finish().num_rows

    some, all_columns = ColumnDecoder(("value", "offset")), ColumnDecoder(COLUMNS)
    return {
        "levada columns (value, offset)": lambda: columns(some),
        "levada all columns": lambda: columns(all_columns),
        "levada records": lambda: sum(map(touch, read_batches(data))),
        "levada records, none looked at": lambda: sum(map(count, read_batches(data))),
        "levada list of records": lambda: sum(touch(batch.records()) for batch in read_batches(data)),
        "levada consumer records": lambda: sum(touch(batch.consumer_records(PARTITION)) for batch in read_batches(data)),
        "levada checksums alone": lambda: _each(read_batches(data), RecordBatch.verify_crc),
    }


def touch(records: Any) -> int:
    """Do what every program does with a record: read its offset, key and value. Return the number of records."""
    total = 0
    for record in records:
        record.offset  # noqa: B018
        record.key  # noqa: B018
        record.value  # noqa: B018
        total += 1
    return total


def count(records: Any) -> int:
    """Iterate over records without reading them; return their number."""
    total = 0
    for _ in records:
        total += 1
    return total


def _each(batches: Iterator[RecordBatch], step: Callable[[RecordBatch], Any]) -> int:
    count = 0
    for batch in batches:
        step(batch)
        count += batch.records_count
    return count


def yardsticks(material: Material) -> dict[str, Callable[[], int]]:
    """Return the limits: copying the values, and decompressing with the codec's own library."""
    source = b"".join(material.values)
    target = memoryview(bytearray(len(source)))
    halves = _halves(material)

    def memcpy() -> int:
        target[:] = source
        return material.count

    found: dict[str, Callable[[], int]] = {"memcpy": memcpy, "pyarrow copy (value, offset)": lambda: pa.concat_batches(halves).num_rows}
    if material.codec in _LIBRARY:
        unpack, packed = _LIBRARY[material.codec], list(_packed(material))
        found["codec library alone"] = lambda: sum(unpack(each) is not None for each in packed) and material.count
    return found


def _packed(material: Material) -> Iterator[memoryview]:
    """Yield the compressed bytes for the library: a stream per record batch. With snappy: the blocks inside the xerial format."""
    for batch in read_batches(material.data):
        packed = batch.data[HEADER_SIZE:]
        if material.codec is not Codec.SNAPPY:
            yield packed
            continue
        packed = packed[16:]
        while packed:
            size = int.from_bytes(packed[:4], "big")
            yield packed[4 : 4 + size]
            packed = packed[4 + size :]


def _halves(material: Material) -> list[pa.RecordBatch]:
    whole = pa.record_batch({"value": material.table["value"].combine_chunks(), "offset": pa.array(range(material.count), pa.int64())})
    return [whole.slice(0, material.count // 2), whole.slice(material.count // 2)]


_zstd = zstandard.ZstdDecompressor()
_LIBRARY: dict[Codec, Callable[[Any], Any]] = {
    Codec.GZIP: lambda packed: zlib.decompress(packed, 16 + zlib.MAX_WBITS),
    Codec.SNAPPY: cramjam.snappy.decompress_raw,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: _zstd.decompress,
}


def encode(material: Material) -> dict[str, Callable[[], int]]:
    """Return levada's ways to encode record batches."""
    return {
        "levada columns": lambda: _columns(material, None, 1),
        "levada columns, keys, 4 partitions": lambda: _columns(material, "key", 4),
        "levada columns, keys, 12 partitions": lambda: _columns(material, "key", 12),
        "levada append": lambda: append(material.values, lambda: RecordBatchBuilder(material.codec, None, BATCH_BYTES)),
    }


def _columns(material: Material, key: str | None, partitions: int) -> int:
    return sum(batch.record_count for batch in encode_rows(material, key, partitions=partitions))


def append(rows: list[bytes], new: Callable[[], RecordBatchBuilder]) -> int:
    """Fill batch after batch, record by record."""
    builder = new()
    add = builder.append_if_room
    for value in rows:
        if add(NOW_MS, None, value) < 0:
            builder.build()
            builder = new()
            add = builder.append_if_room
            add(NOW_MS, None, value)
    builder.build()
    return len(rows)

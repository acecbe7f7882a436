"""A digest of rows that does not depend on their order, or on their division among tasks.

Each row is hashed column by column, and the hashes are added up modulo 2^64. Equal rows in any order and in any number of parts have the
same sum. The digest shows whether a task that runs again computes the same rows. It does not resist deliberate collisions.
"""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from levada.record.columnar.sorter import binary_parts
from levada.wire.murmur2 import murmur2, partitions_for_keys

_HASHES = 2**31 - 1
"""partitions_for_keys() returns a hash below this number; -1 is used for null."""
_MIX = 0x9E3779B97F4A7C15
_MODULUS = 2**64


def rows_digest(records: pa.RecordBatch, topic: str = "") -> int:
    """Return the sum of the hashes of all rows, 0 to 2^64 - 1.

    Columns are hashed in the order of their names, so their order in `records` does not matter. Nulls are hashed, too.
    topic: hashed as one more column of every row.
    """
    if records.num_rows == 0:
        return 0
    hashes = pa.repeat(pa.scalar(murmur2(topic.encode()) % _MODULUS, pa.uint64()), records.num_rows)
    for name in sorted(records.schema.names):
        hashes = _mixed(hashes, _hash_of(records.column(name)))
    return int(pc.sum(hashes).as_py()) % _MODULUS


def _mixed(hashes: pa.Array, more: pa.Array) -> pa.Array:
    """Combine two hashes of each row. Arrow's multiplication wraps around."""
    mixed = pc.multiply(pc.bit_wise_xor(hashes, more), pa.scalar(_MIX, pa.uint64()))
    return pc.bit_wise_xor(mixed, pc.shift_right(mixed, pa.scalar(29, pa.uint64())))


def _hash_of(column: pa.Array) -> pa.Array:
    """Return a hash of each row's value, null included."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_of_lists(column)
    if pa.types.is_struct(kind):
        hashes = pa.repeat(pa.scalar(1, pa.uint64()), len(column))
        for field in column.flatten():
            hashes = _mixed(hashes, _hash_of(field))
        return hashes
    if pa.types.is_timestamp(kind) or pa.types.is_integer(kind):
        numbers = column.cast(pa.int64()) if pa.types.is_integer(kind) else column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        # 2 is added so that null, which is 1, differs from the most common numbers.
        return pc.fill_null(pc.add(numbers, 2), 1).view(pa.uint64())
    return _hashes_of_bytes(column)


def _hashes_of_bytes(column: pa.Array) -> pa.Array:
    column = column.cast(pa.large_binary())
    hashes = array("i", [-1]) * len(column)
    partitions_for_keys(*binary_parts(column), _HASHES, hashes)
    return pc.add(pa.Array.from_buffers(pa.int32(), len(column), [None, pa.py_buffer(hashes)]).cast(pa.int64()), 2).cast(pa.uint64())


def _hash_of_lists(column: pa.Array) -> pa.Array:
    """Return per row the sum of the hashes of the list's items and of the list's length."""
    items = pa.table({"row": pc.list_parent_indices(column), "hash": _hash_of(pc.list_flatten(column))})
    sums: dict[Any, int] = {}
    if items.num_rows:
        added = items.group_by("row").aggregate([("hash", "sum")])
        sums = dict(zip(added["row"].to_pylist(), added["hash_sum"].to_pylist(), strict=True))
    lengths = pc.fill_null(pc.add(pc.list_value_length(column).cast(pa.int64()), 1), 0).to_pylist()
    return pa.array([(sums.get(row, 0) + length) % _MODULUS for row, length in enumerate(lengths)], pa.uint64())

"""Converts Arrow arrays of any layout to the few layouts that the encoder reads.

The same values come in many layouts: plain, as views, with a dictionary, run-end encoded, and each of these as the storage of an extension
type. In some layouts rows share their bytes, so a small array may become very large when every value is written out. row_sizes() returns
the sizes in advance. Milliseconds and partitions that do not fit 64 bits become OUT_OF_RANGE: then the row is rejected, the call succeeds.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

OUT_OF_RANGE = -(2**63)
HEADER = pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())])

_MAX_INT64 = 2**63 - 1
_MS_PER_S = 1000
_VIEW_SIZE = 16
_VIEW_LENGTH_SIZE = 4


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that an extension type is stored as; any other type as it is."""
    return storage_type(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of an array's values, inside extension types, dictionaries and runs."""
    kind = storage_type(kind)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return value_type(kind.value_type)
    return kind


def unwrap(array: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Return (indices, values). Row i is values[indices[i]], or values[i] if indices is None.

    values has the type value_type(array.type).
    """
    if isinstance(array, pa.ExtensionArray):
        return unwrap(array.storage)
    if pa.types.is_dictionary(array.type):
        return _through(array.indices, array.dictionary)
    if pa.types.is_run_end_encoded(array.type):
        first, count = array.find_physical_offset(), array.find_physical_length()
        numbers = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), count)), 1)
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends.slice(first, count), numbers)
        return _through(pc.run_end_decode(runs.slice(array.offset, len(array))), array.values.slice(first, count))
    return None, array


def _through(indices: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    inner, values = unwrap(values)
    return (indices if inner is None else inner.take(indices)), values


def _write_out(indices: pa.Array | None, values: pa.Array) -> pa.Array:
    return values if indices is None else values.take(indices)


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary_view(kind) or pa.types.is_string_view(kind))


def shares_bytes(array: pa.Array) -> bool:
    """Whether rows of a column that compact() returned may share bytes."""
    return bool(pa.types.is_dictionary(array.type) or _is_view(array.type))


def compact(array: pa.Array) -> pa.Array:
    """Return binary or text values plain, as views, or as a dictionary of large_binary: row_sizes() and to_binary() are fast with these."""
    indices, values = unwrap(array)
    return values if indices is None else pa.DictionaryArray.from_arrays(indices, _large(values))


def row_sizes(array: pa.Array) -> pa.Array:
    """Return how many bytes each value takes when written out, as int64. array: a column for which shares_bytes() is True."""
    if pa.types.is_dictionary(array.type):
        sizes = pc.binary_length(array.dictionary).take(array.indices)
    else:
        # The first bytes of a view are its length.
        views = pa.Array.from_buffers(pa.binary(_VIEW_SIZE), len(array), [None, array.buffers()[1]], offset=array.offset)
        lengths = pc.binary_slice(views, 0, _VIEW_LENGTH_SIZE).view(pa.int32())
        sizes = pc.if_else(array.is_valid(), lengths, 0).cast(pa.int64())
    return sizes.fill_null(0)


def to_binary(array: pa.Array) -> pa.Array:
    """Return binary or text values of any layout as large_binary."""
    indices, values = unwrap(array)
    return _write_out(indices, _large(values))


def _large(values: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(values.type):
        # Arrow's cast would copy the whole array behind a slice.
        values = pa.concat_arrays([values])
    return values.cast(pa.large_binary())


def to_int64(array: pa.Array) -> pa.Array:
    """Return integers as int64. A uint64 of 2^63 or more becomes OUT_OF_RANGE."""
    numbers = _write_out(*unwrap(array))
    if pa.types.is_uint64(numbers.type):
        wrapped = numbers.cast(options=pc.CastOptions(pa.int64(), allow_int_overflow=True))
        return pc.if_else(pc.less(wrapped, 0), OUT_OF_RANGE, wrapped)
    return numbers.cast(pa.int64())


def to_milliseconds(array: pa.Array) -> pa.Array:
    """Return timestamps, dates, or integers in milliseconds as int64 milliseconds since the epoch.

    Finer units are truncated. A number or time that does not fit becomes OUT_OF_RANGE.
    """
    times = _write_out(*unwrap(array))
    if pa.types.is_integer(times.type) or pa.types.is_null(times.type):
        return to_int64(times)
    if pa.types.is_timestamp(times.type) and times.type.unit == "s":
        seconds, most = times.cast(pa.int64()), _MAX_INT64 // _MS_PER_S
        fits = pc.and_(pc.less_equal(seconds, most), pc.greater_equal(seconds, -most))
        return pc.if_else(fits, pc.multiply(seconds, _MS_PER_S), OUT_OF_RANGE)
    return times.cast(options=pc.CastOptions(pa.timestamp("ms"), allow_time_truncate=True)).cast(pa.int64())


def to_headers(array: pa.Array) -> pa.Array:
    """Return headers as large_list<struct<key, value>>.

    array: a list of structs of any layout, or a map. A null list becomes an empty list or stays null: both mean no headers.
    """
    indices, lists = unwrap(array)
    if pa.types.is_null(lists.type):
        return lists.cast(pa.large_list(HEADER))
    if pa.types.is_map(lists.type):
        entry = pa.struct([("key", lists.type.key_type), ("value", lists.type.item_type)])
        lists = lists.cast(pa.list_(entry))
    # No cast: Arrow's cast returns wrong values for slices of list views.
    counts = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
    return _write_out(indices, pa.LargeListArray.from_arrays(offsets, _header_entries(lists.flatten())))


def _header_entries(array: pa.Array) -> pa.Array:
    indices, entries = unwrap(array)
    fields = dict(zip((field.name for field in entries.type), entries.flatten(), strict=True))
    return pa.StructArray.from_arrays([_write_out(indices, to_binary(fields[field.name])) for field in HEADER], fields=list(HEADER))


def parts_of_headers(kind: pa.DataType) -> dict[str, Any] | None:
    """Return the types of a header's fields by name; None if the type is neither a list of structs nor a map."""
    kind = value_type(kind)
    is_ = pa.types
    if is_.is_map(kind):
        return {"key": kind.key_type, "value": kind.item_type}
    lists = (is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_list_view, is_.is_large_list_view)
    if not any(test(kind) for test in lists):
        return None
    entry = value_type(kind.value_type)
    return {field.name: field.type for field in entry} if is_.is_struct(entry) else None

"""What encoding columns takes of memory, measured in Arrow's own pool: a piece of the input, however large that is or would become."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from arrow_memory import at_most
from columns_kit import encode_columns
from levada.record.columnar import EncodedBatch
from levada.record.columnar.rows import open_reader, pieces
from levada.record.compression import Codec
from record_kit import NOW_MS

MIB = 2**20
LONG = b"long" * (MIB // 4)
ROWS = 100_000


def encoded(data: Any) -> Iterator[EncodedBatch]:
    batches, _ = encode_columns(
        data,
        key=None,
        value="value",
        headers=None,
        timestamp=None,
        partition=None,
        partition_count=1,
        next_sticky_partition=lambda: 0,
        codec=Codec.NONE,
        level=None,
        batch_size=MIB,
        max_record_size=2 * MIB,
        now_ms=NOW_MS,
    )
    return batches


def as_dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int8()), pa.array([LONG]))


def as_dictionary_of_views() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int8()), pa.array([LONG], pa.binary_view()))


def as_run() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array([LONG]))


def as_views() -> pa.Array:
    view = struct.pack("<i4sii", len(LONG), LONG[:4], 0, 0)
    return pa.Array.from_buffers(pa.binary_view(), ROWS, [None, pa.py_buffer(view * ROWS), pa.py_buffer(LONG)])


@pytest.mark.parametrize("make", [as_dictionary, as_dictionary_of_views, as_run, as_views])
def test_one_long_value_of_many_rows_is_written_out_piece_by_piece(make: Any) -> None:
    table = pa.table({"value": make()})

    with at_most(20 * MIB):
        first = list(itertools.islice(encoded(table), 5))

    assert [list(batch.rows) for batch in first] == [[0], [1], [2], [3], [4]]
    assert bytes(first[4].data).count(LONG) == 1


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1000)], ids=str)
def test_a_large_table_is_not_copied_whole(kind: pa.DataType) -> None:
    table = pa.table({"value": pa.array([b"x" * 1000] * 60_000, kind)}).slice(1000)

    with at_most(20 * MIB):
        rows = sum(batch.record_count for batch in encoded(table))

    assert rows == 59_000


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary(1000)], ids=str)
def test_a_small_slice_of_a_large_table_is_one_small_piece(kind: pa.DataType) -> None:
    whole = pa.array([f"{row:01000}" for row in range(50_000)])
    array = whole.dictionary_encode() if pa.types.is_dictionary(kind) else whole.cast(pa.binary()).cast(kind)
    table = pa.table({"value": array}).slice(20_000, 300)

    with at_most(4 * MIB):
        (piece,) = pieces(open_reader(table), {"value": "value"}, 4 * MIB)

    assert piece.num_rows == 300
    assert piece["value"][0].as_py() == b"%01000d" % 20_000


def test_columns_that_are_not_sent_do_not_cut_those_that_are() -> None:
    table = pa.table({"other": [b"x" * 10_000] * 2000, "value": [b"y" * 10] * 2000})

    assert len(list(pieces(open_reader(table), {"value": "value"}, 4 * MIB))) == 1


def test_rows_of_very_different_sizes_make_pieces_of_one_size() -> None:
    values = [b"x" * 10] * 30_000 + [LONG] * 20
    table = pa.table({"value": values})

    sizes = [piece.nbytes for piece in pieces(open_reader(table), {"value": "value"}, 4 * MIB)]

    assert max(sizes) <= 6 * MIB
    assert len(sizes) < 20

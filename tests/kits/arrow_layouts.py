"""The same values in every layout that Arrow has for them, and strategies that choose among them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Layout = Callable[[list[Any]], pa.Array]

BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view())


def plain(kind: pa.DataType) -> Layout:
    """Return a layout: a plain array of this type. Text becomes UTF-8 if the type is binary."""
    text = not any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))

    def build(values: list[Any]) -> pa.Array:
        return pa.array([each.encode() if isinstance(each, str) and not text else each for each in values], kind)

    return build


def dictionary(inner: Layout, index: pa.DataType) -> Layout:
    """Return a layout: dictionary-encoded. In some arrays null is an entry of the dictionary."""

    def build(values: list[Any]) -> pa.Array:
        entries = list(dict.fromkeys(each for each in values if each is not None or len(values) % 2))
        indices = [entries.index(each) if each in entries else None for each in values]
        return pa.DictionaryArray.from_arrays(pa.array(indices, index), inner(entries))

    return build


def runs(inner: Layout, ends: pa.DataType) -> Layout:
    """Return a layout: run-end-encoded. ends: the type of the run ends."""

    def build(values: list[Any]) -> pa.Array:
        groups = [(value, len(list(group))) for value, group in itertools.groupby(values)]
        stops = list(itertools.accumulate(length for _, length in groups))
        return pa.RunEndEncodedArray.from_arrays(pa.array(stops, ends), inner([value for value, _ in groups]))

    return build


class Tagged(pa.ExtensionType):  # type: ignore[misc]
    """An extension type of a user's. Like most of them it has no hash."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Tagged:
        return cls()


def extension(inner: Layout, kind: pa.DataType) -> Layout:
    """Return a layout: an extension type. inner: the layout of its storage."""
    return lambda values: pa.ExtensionArray.from_storage(kind, inner(values))


def wrapped(kinds: tuple[pa.DataType, ...]) -> list[Layout]:
    simple = [plain(kind) for kind in kinds]
    return [
        *simple,
        *(dictionary(layout, index) for layout in simple for index in (pa.int8(), pa.uint32())),
        *(runs(layout, ends) for layout in simple for ends in (pa.int16(), pa.int64())),
        *(runs(dictionary(layout, pa.int16()), pa.int32()) for layout in simple),
    ]


BINARY_LAYOUTS = [*wrapped(BYTES), *(extension(plain(pa.string()), kind) for kind in (pa.json_(), Tagged()))]
TIME_LAYOUTS = wrapped((pa.timestamp("ms"), pa.timestamp("ms", "Asia/Tokyo"), pa.int64(), pa.uint64()))
PARTITION_LAYOUTS = wrapped((pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()))


def header_lists(list_of: Callable[[pa.DataType], pa.DataType], key: Layout, value: Layout) -> Layout:
    """Return a layout of headers: lists of structs whose fields have these layouts."""

    def build(values: list[Any]) -> pa.Array:
        pairs = [pair for row in values for pair in row or ()]
        entries = pa.StructArray.from_arrays([value([pair[1] for pair in pairs]), key([pair[0] for pair in pairs])], ["value", "key"])
        offsets = [0, *itertools.accumulate(len(row or ()) for row in values)]
        sizes = pa.array([len(row or ()) for row in values], pa.int32())
        mask = pa.array([row is None for row in values], pa.bool_())
        kind = list_of(pa.int8())
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=mask)
        if pa.types.is_large_list(kind):
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), entries, mask=mask)
        return pa.ListViewArray.from_arrays(pa.array(offsets[:-1], pa.int32()), sizes, entries, mask=mask)

    return build


def header_map(item: pa.DataType) -> Layout:
    """Return a layout of headers: a map. item: the type of its values."""
    item_of = plain(item)
    return lambda values: pa.array(
        [row and [(key, item_of([value])[0].as_py()) for key, value in row] for row in values], pa.map_(pa.string(), item)
    )


HEADER_LAYOUTS = [
    *(header_lists(kind, plain(pa.string()), inner) for kind in (pa.list_, pa.large_list, pa.list_view) for inner in BINARY_LAYOUTS[:9]),
    header_lists(pa.list_, dictionary(plain(pa.string_view()), pa.int8()), plain(pa.binary())),
    header_map(pa.string()),
    header_map(pa.binary()),
    dictionary(header_lists(pa.list_, plain(pa.string_view()), plain(pa.binary_view())), pa.int8()),
]


@st.composite
def chunked(draw: st.DrawFn, values: list[Any], layouts: list[Layout]) -> pa.ChunkedArray:
    """The values in one layout, in chunks, each a slice of an array that holds more."""
    layout = draw(st.sampled_from(layouts))
    edges = sorted({0, len(values), *draw(st.lists(st.integers(0, len(values)), max_size=3))})
    chunks = []
    for start, stop in itertools.pairwise(edges):
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        around = values[:before] + values[start:stop] + values[:after]
        chunks.append(layout(around).slice(min(before, len(values)), stop - start))
    return pa.chunked_array(chunks or [layout([])])

"""Growing buffers for decoded columns. They become Arrow arrays without being copied."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import pyarrow as pa

from levada.record.reader import BinarySink, HeaderSink, RecordWalker

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])

_MAX_INT64 = 2**63 - 1
_LEAST_CAPACITY = 64
_INT32 = struct.Struct("=i")
_MOST_SHARED_BYTES = 4 << 20
"""The most bytes of a repeated text that are kept for later batches. A few texts are kept."""


def runs_array(ends: list[int], values: list[Any]) -> pa.Array:
    """Return an array with values[0] in the rows before ends[0], values[1] in those before ends[1], and so on. Values are int32 or text."""
    runs: list[tuple[Any, int]] = []
    start = 0
    for run, end in enumerate(ends):
        if run + 1 == len(ends) or values[run + 1] != values[run]:
            runs.append((values[run], end - start))
            start = end
    if isinstance(values[0], str):
        parts = [_texts(value, rows) for value, rows in runs]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    data = b"".join(_INT32.pack(value) * rows for value, rows in runs)
    return pa.Array.from_buffers(pa.int32(), start, [None, pa.py_buffer(data)])


def _texts(value: str, rows: int) -> pa.Array:
    """Return an array with a text in each row. Usually it is a slice of an earlier array, because topics repeat from batch to batch."""
    room = 1 << (rows - 1).bit_length()
    if room * (len(value.encode()) + _INT32.size) > _MOST_SHARED_BYTES:
        return _repeated(value, rows)
    return _shared_texts(value, room).slice(0, rows)


@lru_cache(8)
def _shared_texts(value: str, rows: int) -> pa.Array:
    return _repeated(value, rows)


def _repeated(value: str, rows: int) -> pa.Array:
    # Not pa.repeat(value, ...): it imports pandas, if installed, to test whether the value is from pandas, which takes 0.2 s.
    data = value.encode()
    offsets, text = pa.py_buffer(_INT32.pack(0) + _INT32.pack(len(data))), pa.py_buffer(data)
    return pa.repeat(pa.Array.from_buffers(pa.string(), 1, [None, offsets, text])[0], rows)


class Memory:
    """Memory that at least doubles when it grows, and becomes an Arrow buffer.

    fill: the value of new bytes; None does not set them. most: the most bytes.
    """

    def __init__(self, fill: int | None = None, most: int = _MAX_INT64) -> None:
        self._buffer = pa.allocate_buffer(0, resizable=True)
        self._fill = fill
        self._most = most

    def reserve(self, size: int, growth: float = 1.0) -> memoryview:
        """Grow to at least `size` bytes in total, but not beyond `most`; return a view of all bytes.

        Views from earlier calls are invalid afterwards. growth: the expected final size divided by `size`. Memory for the final size,
        and at least twice the old size, is reserved at once: unused memory costs nothing, but moving data to larger memory later does.
        """
        old = self._buffer.size
        if size > old or not old:
            new = max(min(max(int(size * growth) & -8, size, 2 * old), self._most), _LEAST_CAPACITY)
            self._buffer.resize(new)
            if self._fill is not None:
                memoryview(self._buffer).cast("B")[old:new] = bytes((self._fill,)) * (new - old)
        return memoryview(self._buffer).cast("B")

    def buffer(self, size: int) -> pa.Buffer:
        """Return the first `size` bytes."""
        return self._buffer.slice(0, size)

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the first `rows` int64 numbers as an array of the type `kind`."""
        return pa.Array.from_buffers(kind, rows, [None, self.buffer(rows * 8)])


class Binary:
    """The memory of a BinarySink."""

    def __init__(self, sink: BinarySink, most: int) -> None:
        self.sink = sink
        self._data = Memory(most=most)
        self._offsets = Memory()
        self._validity = Memory(fill=0xFF)
        self._rows = self._bytes = 0

    def reserve(self, rows: int, size: int, growth: float = 1.0) -> None:
        """Make room for `rows` more values of `size` bytes in total. growth: see Memory.reserve()."""
        rows += self.sink.rows
        data = self._data.reserve(self.sink.size + size, growth)
        offsets = self._offsets.reserve((rows + 1) * 4, growth).cast("i")
        validity = self._validity.reserve((rows + 7) // 8, growth)
        self.sink.attach(data, offsets, validity)
        self._rows, self._bytes = min(len(offsets) - 1, len(validity) * 8), len(data)

    def has_room(self, rows: int, size: int) -> bool:
        """Whether there is room for `rows` more values of `size` bytes in total.

        Calling reserve() without need costs more than a small batch.
        """
        return self.sink.rows + rows <= self._rows and self.sink.size + size <= self._bytes

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the column."""
        sink = self.sink
        validity = self._validity.buffer((rows + 7) // 8) if sink.nulls else None
        buffers = [validity, self._offsets.buffer((rows + 1) * 4), self._data.buffer(sink.size)]
        return pa.Array.from_buffers(kind, rows, buffers, sink.nulls)

    def text(self, rows: int) -> pa.Array:
        """Return the column as strings, with null for a value that is not UTF-8."""
        values = self.array(pa.binary(), rows)
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([None if utf8_fault(value) else value for value in values.to_pylist()], pa.binary()).cast(pa.string())

    def first_not_utf8(self, start: int) -> int | None:
        """Return the first row, from `start` on, whose value is not UTF-8; None if there is none."""
        values = self.array(pa.binary(), self.sink.rows).slice(start)
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            return next(start + row for row, value in enumerate(values) if utf8_fault(value.as_py()))
        return None


class Headers:
    """The memory of a HeaderSink."""

    def __init__(self, sink: HeaderSink, most: int) -> None:
        self._sink = sink
        self._offsets = Memory()
        self._keys = Binary(sink.keys, most)
        self._values = Binary(sink.values, most)

    def reserve(self, rows: int) -> None:
        """Make room for the positions of `rows` more rows."""
        offsets = self._offsets.reserve((self._sink.rows + rows + 1) * 4).cast("i")
        self._sink.attach(offsets, memoryview(bytearray(8 * rows or 8)).cast("q"))

    def copy(self, walker: RecordWalker) -> None:
        """Copy the headers of the rows that the sink has noted."""
        sink = self._sink
        count = sink.noted - sink.keys.rows
        if count:
            self._keys.reserve(count, sink.key_bytes - sink.keys.size)
            self._values.reserve(count, sink.value_bytes - sink.values.size)
            sink.copy(walker)

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the column."""
        count = self._sink.noted
        keys, values = (pa.nulls(0, pa.binary()),) * 2
        if count:
            keys, values = self._keys.array(pa.binary(), count), self._values.array(pa.binary(), count)
        entries = pa.StructArray.from_arrays([_text(keys), values], fields=list(HEADER))
        return pa.Array.from_buffers(kind, rows, [None, self._offsets.buffer((rows + 1) * 4)], children=[entries])


def utf8_fault(data: bytes | None) -> str | None:
    """Return the position and reason why bytes are not UTF-8, as text; None if they are UTF-8 or null."""
    try:
        (data or b"").decode()
    except UnicodeDecodeError as fault:
        return f"byte {fault.start}: {fault.reason}"
    return None


def _text(names: pa.Array) -> pa.Array:
    """Return header keys as strings. As in Java, bytes that are not UTF-8 become U+FFFD."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())

# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Writes records into the bytes of a record batch, one at a time or as rows of columns.

A record is written in two steps. The size of its body is computed first, because the length comes before the body; then the body is written
directly into the batch's memory. Rows of columns take the same two steps, but all rows are measured before the first is written.
Compiled code measures without the interpreter lock. The C types are in builder.pxd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.errors import IllegalStateError
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE, finish_batch
from levada.record.record import Header

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

MOST = 2**63 - 1
NO_HEADERS = b"\x00"
"""What pack_headers() returns for no headers."""
# The most bytes of a record's length before its body.
MAX_LENGTH_SIZE = 5
# In place of a partition: for a row that has no partition yet, and for a row that cannot be sent.
UNASSIGNED = -1
REJECTED = -2
# append_if_room() returns these instead of an offset: the batch is full, or it would take more memory than its allowance.
NO_ROOM = -1
NO_MEMORY = -2
# The same numbers, and others, under names that are C variables where this is compiled.
NO_PARTITION, BAD_ROW, FULL, STARVED = UNASSIGNED, REJECTED, NO_ROOM, NO_MEMORY
RECORDS_AT = HEADER_SIZE
# Header, and a record's length, attributes and deltas at their longest.
MAX_ROW_OVERHEAD = HEADER_SIZE + 21
ROWS_AHEAD = 8
GROWTH = 4
_FIRST_ROOM = 512
# A compressed batch may become larger than the compression ratio of earlier batches predicts.
_RATIO_SLACK = 1.05


def varint_size(value: int) -> int:
    """Return how many bytes a number takes as a zigzag varint."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


def field_size(size: int) -> int:
    """Return how many bytes a key, value or header part takes with the varint of its length. size: its bytes, or -1 for null."""
    return 1 if size < 0 else varint_size(size) + size


def write_varint(target: Any, at: int, value: int) -> int:
    """Write a number as a zigzag varint at position `at` of `target`; return the position after the varint."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        target[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    target[at] = zigzag
    return at + 1


def write_field(target: Any, at: int, source: Any, start: int, size: int) -> int:
    """Write a length and a field at position `at` of `target`; return the position after the field.

    The field is the `size` bytes of `source` from `start` on. size: -1 for null, which is written as the length -1 and no bytes.
    """
    return write_bytes(target, write_varint(target, at, size), source, start, size)


def write_bytes(target: Any, at: int, source: Any, start: int, size: int) -> int:
    """Copy `size` bytes of `source` from `start` on to position `at` of `target`; return the position after them.

    Copies nothing if the size is negative.
    """
    if size <= 0:
        return at
    if cython.compiled:
        memcpy(target + at, source + start, size)
    else:
        target[at : at + size] = source[start : start + size]
    return at + size


def write_deltas(target: Any, at: int, timestamp_delta: int, offset_delta: int) -> int:
    """Write a record's attributes, which are always 0, its timestamp delta and its offset delta; return the position after the deltas."""
    target[at] = 0
    at = write_varint(target, at + 1, timestamp_delta)
    return write_varint(target, at, offset_delta)


def pack_headers(headers: Sequence[Header]) -> bytes:
    """Encode headers as a record ends with them: the number of headers, then each header."""
    if not headers:
        return NO_HEADERS
    packed = bytearray()
    _append_varint(packed, len(headers))
    packed += _packed(headers)
    return bytes(packed)


def _packed(headers: Sequence[Header]) -> bytes:
    packed = bytearray()
    for name, value in headers:
        encoded = name.encode()
        _append_varint(packed, len(encoded))
        packed += encoded
        _append_varint(packed, -1 if value is None else len(value))
        packed += value or b""
    return bytes(packed)


def _append_varint(target: bytearray, value: int) -> None:
    at = len(target)
    target.extend(bytes(varint_size(value)))
    write_varint(target, at, value)


class RecordBatchBuilder:
    """Builds one record batch from records that are added one at a time.

    write_limit: the size in bytes that the batch should not exceed. The first record is accepted even if it is larger.
    compression_ratio: the expected compressed bytes for one byte of records, estimated from earlier batches; 1.0 if nothing is known.
    records_size, largest_record: the bytes of all records, and of the largest record, before compression.
    allowance: the bytes to which the batch's memory may grow. wanted: the allowance that the last record with the result NO_MEMORY needed.
    """

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        write_limit: int = 16384,
        compression_ratio: float = 1.0,
        allowance: int = MOST,
    ) -> None:
        self.codec = codec
        self.level = level
        self.write_limit = write_limit
        self.records_count = 0
        self.largest_record = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.compression_ratio = compression_ratio
        self._factor = compression_ratio * _RATIO_SLACK if codec else 1.0
        self._closed = False
        self._built: bytearray | None = None
        self.allowance = allowance
        self.wanted = 0
        self._buffer = bytearray(min(max(write_limit, HEADER_SIZE), _FIRST_ROOM, allowance))
        self._at = HEADER_SIZE

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record, even if the batch then exceeds write_limit. Return the record's offset within the batch.

        Returns NO_MEMORY, and adds nothing, if the allowance is too small. timestamp: in ms since the epoch, -1 for none. Raises
        IllegalStateError if the batch is built. If it raises this, TypeError, ValueError or OverflowError, nothing has been added.
        """
        if self._closed:
            raise IllegalStateError("the batch is built; nothing can be appended to it")
        return self._append(timestamp, key, value, pack_headers(headers), True)

    def append_if_room(self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes = NO_HEADERS) -> int:
        """Add a record like append(), but return NO_ROOM if it does not fit into write_limit or if the batch is already built.

        Otherwise return the same as append(). headers: from pack_headers(). Compiled, and with `key` and `value` of bytes, the call runs no
        Python code.
        """
        return FULL if self._closed else self._append(timestamp, key, value, headers, False)

    def _append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes, always: bool) -> int:
        # Within these limits the difference of any two timestamps fits 64 bits.
        if timestamp < -1 or timestamp >= MOST:
            raise ValueError(f"timestamp {timestamp}: expected milliseconds since the epoch, or -1 for none")
        delta = timestamp - self.base_timestamp if self.records_count else 0
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        body = 1 + varint_size(delta) + varint_size(self.records_count) + field_size(key_size) + field_size(value_size) + len(headers)
        if not (always or self._fits(varint_size(body) + body)):
            return FULL
        if self._at + MAX_LENGTH_SIZE + body > self.allowance:
            self.wanted = self._at + MAX_LENGTH_SIZE + body
            return STARVED
        self.reserve(MAX_LENGTH_SIZE + body)
        end = self._write(body, delta, key or b"", key_size, value or b"", value_size, headers)
        if end - self._at > self.largest_record:
            self.largest_record = end - self._at
        self._at = end
        if self.records_count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.records_count += 1
        return self.records_count - 1

    def _fits(self, size: int) -> bool:
        """Whether `size_estimate` stays within the write limit with one more record of `size` bytes; the first record always fits."""
        return self.records_count == 0 or (self._at - RECORDS_AT) * self._factor < self.write_limit - RECORDS_AT - size + 1

    @property
    def is_built(self) -> bool:
        """Whether build() has returned the batch."""
        return self._built is not None

    @property
    def is_full(self) -> bool:
        """Whether the batch is built or has reached its write limit, so that no more records should be appended."""
        return self.has_reached_limit()

    def has_reached_limit(self) -> bool:
        """Return the value of `is_full`. Compiled code calls this method directly."""
        return self._closed or (self.records_count > 0 and (self._at - RECORDS_AT) * self._factor >= self.write_limit - RECORDS_AT)

    @property
    def size_estimate(self) -> int:
        """Bytes that the whole batch will take: exact without a codec, otherwise an estimate."""
        return HEADER_SIZE + int((self._at - HEADER_SIZE) * self._factor)

    @property
    def records_size(self) -> int:
        """Bytes of all records, uncompressed."""
        return self._at - HEADER_SIZE

    def build(self) -> bytearray:
        """Return the complete batch with its checksum. Afterwards the builder accepts no more records.

        The base offset is 0; leader epoch, producer id, producer epoch and base sequence are -1.

        Afterwards `compression_ratio` is the observed ratio. A second call, for example after an interrupt, returns the same bytes. Raises
        IllegalStateError if the batch has no records.
        """
        if self._built is not None:
            return self._built
        if self.records_count == 0:
            raise IllegalStateError("a record batch cannot be empty")
        self._closed = True
        del self._buffer[self._at :]
        batch = finish_batch(self._buffer, self.records_count, self.base_timestamp, self.max_timestamp, self.codec, self.level)
        self.compression_ratio = (len(batch) - HEADER_SIZE) / self.records_size
        self._built = batch
        self._buffer = bytearray()
        return batch

    def reserve(self, size: int) -> None:
        """Make room for `size` more bytes of records."""
        missing = self._at + size - len(self._buffer)
        if missing > 0:
            grown = min(len(self._buffer) + max(missing, len(self._buffer)), max(self.allowance, len(self._buffer) + missing))
            if cython.compiled:
                PyByteArray_Resize(self._buffer, grown)
            else:
                self._buffer.extend(bytes(grown - len(self._buffer)))

    def _write(self, body: int, delta: int, key: Any, key_size: int, value: Any, value_size: int, headers: bytes) -> int:
        target: Any = self._buffer
        at = write_varint(target, self._at, body)
        at = write_deltas(target, at, delta, self.records_count)
        at = write_field(target, at, key, 0, key_size)
        at = write_field(target, at, value, 0, value_size)
        return write_bytes(target, at, headers, 0, len(headers))


class BinaryColumn:
    """Reads values from the buffers of an Arrow large_binary column.

    offsets: an int64 for each row, beginning with the array's first row; None if all values are null. validity: Arrow's validity bits, None
    if no value is null. shift: the position of the first row's bit in `validity`.
    """

    def __init__(self, data: Any = b"", offsets: Any = None, validity: Any = None, shift: int = 0) -> None:
        self.present = offsets is not None
        self.nullable = validity is not None
        self.data = data
        self.offsets = offsets
        self.validity = validity
        self.shift = shift

    def size(self, row: int) -> int:
        """Return the size of a row's value in bytes, -1 if the value is null."""
        if not self.present:
            return -1
        if self.nullable and not self.validity[(row + self.shift) >> 3] >> ((row + self.shift) & 7) & 1:
            return -1
        size: int = self.offsets[row + 1] - self.offsets[row]
        return size

    def fetch(self, row: int) -> None:
        """Load a row's value into the processor's cache before it is needed. The processor itself does not predict which row is next."""
        if cython.compiled:
            prefetch(cython.address(self.data[0]) + self.offsets[row])  # type: ignore[name-defined]  # noqa: F821 - C, see builder.pxd

    def write(self, target: Any, at: int, row: int) -> int:
        """Write the length and the bytes of a row's value at position `at` of `target`; return the position after the value."""
        size = self.size(row)
        if size < 0:
            return write_varint(target, at, -1)
        if cython.compiled:
            source = cython.address(self.data[0])
        else:
            source = self.data
        return write_field(target, at, source, self.offsets[row], size)


class HeaderColumn:
    """Reads headers from an Arrow large_list column. A row whose list is null has only the common headers.

    lists: the list column's offsets and validity; each offset is an index into `keys` and `values`. keys, values: the keys and the values
    of all headers. common: headers that every row gets after its own headers.
    """

    def __init__(self, lists: BinaryColumn, keys: BinaryColumn, values: BinaryColumn, common: Sequence[Header] = ()) -> None:
        self.lists = lists
        self.keys = keys
        self.values = values
        self.common_count = len(common)
        self.common = _packed(common)
        self.common_size = len(self.common)

    def count(self, row: int) -> int:
        """Return the number of a row's own headers, without the common headers."""
        size = self.lists.size(row)
        return size if size > 0 else 0

    def size(self, row: int) -> int:
        """Return the size in bytes of a row's headers when encoded, with the common headers and the count; -1 if a header key is null."""
        count = self.count(row)
        total = varint_size(count + self.common_count) + self.common_size
        for index in range(count):
            entry = self.lists.offsets[row] + index
            key_size = self.keys.size(entry)
            if key_size < 0:
                return -1
            total += field_size(key_size) + field_size(self.values.size(entry))
        return total

    def write(self, target: Any, at: int, row: int) -> int:
        """Write the count, a row's headers and the common headers at position `at` of `target`; return the position after them."""
        count = self.count(row)
        at = write_varint(target, at, count + self.common_count)
        for index in range(count):
            entry = self.lists.offsets[row] + index
            at = self.keys.write(target, at, entry)
            at = self.values.write(target, at, entry)
        if not self.common_size:
            return at
        if cython.compiled:
            source = cython.address(self.common[0])
        else:
            source = self.common
        return write_bytes(target, at, source, 0, self.common_size)


class RowWriter:
    """Writes rows of Arrow columns as records into batches. first_row: the number of the columns' first row."""

    def __init__(self, key: BinaryColumn, value: BinaryColumn, headers: HeaderColumn, timestamps: Any, first_row: int) -> None:
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamps = timestamps
        self.first_row = first_row

    def measure(self, sizes: Any) -> None:
        """Set sizes[i] to the maximum size in bytes of a batch with row i alone, or to -1 if a header key of row i is null.

        sizes: an int64 for each row.
        """
        with cython.nogil:
            self.measure_rows(sizes)

    def measure_rows(self, sizes: Any) -> None:
        """Do the work of measure() without the interpreter lock."""
        for row in range(len(sizes)):
            headers = self.headers.size(row)
            if headers < 0:
                sizes[row] = -1
            else:
                sizes[row] = MAX_ROW_OVERHEAD + field_size(self.key.size(row)) + field_size(self.value.size(row)) + headers

    def reject(self, sizes: Any, most: int, partitions: Any) -> int:
        """Set partitions[i] to REJECTED for each row i that cannot be sent. Return how many rows this call has rejected.

        A row cannot be sent if a header key is null, if a batch with this row alone may take more than `most` bytes, or if its timestamp is
        negative. sizes: set by measure().
        """
        count = 0
        for row in range(len(sizes)):
            if (sizes[row] < 0 or sizes[row] > most or self.timestamps[row] < 0) and partitions[row] != BAD_ROW:
                partitions[row] = BAD_ROW
                count += 1
        return count

    def write(self, batch: RecordBatchBuilder, rows: Any, first: int, sizes: Any) -> int:
        """Append rows to a batch until its write limit is reached. Return the index in `rows` at which to continue.

        rows: row numbers; the row numbered rows[first] is appended first. The caller limits them by affordable() and raises the
        allowance by growth(), unless the allowance is MOST. sizes: set by measure(). An empty batch accepts a first row of any size.
        Compiled code keeps the interpreter lock, so that no other thread appends to the same batch meanwhile.
        """
        batch.reserve(min(self.room_for(batch, rows, first, sizes), batch.allowance - batch._at))
        target = batch._buffer
        return self.write_rows(target, batch, rows, first, sizes)

    def affordable(self, batch: RecordBatchBuilder, rows: Any, first: int, sizes: Any, spare: int) -> int:
        """Return the index in `rows` up to which rows fit into a batch's allowance, if the allowance may grow by `spare` bytes.

        rows, first, sizes: see write(). The batch may reach its write limit before this index.
        """
        left = batch.allowance - batch._at + spare
        taken = 0
        index = first
        while index < len(rows) and taken < batch.write_limit:
            taken += sizes[rows[index] - self.first_row] - RECORDS_AT
            if taken > left:
                break
            index += 1
        return index

    def growth(self, batch: RecordBatchBuilder, rows: Any, first: int, sizes: Any, spare: int) -> int:
        """Return the bytes by which a batch's allowance has to grow before write() appends `rows`; at most `spare`.

        rows: only the rows up to the index that affordable() returned. first, sizes: see write().
        """
        needed = self.room_for(batch, rows, first, sizes) - (batch.allowance - batch._at)
        return 0 if needed < 0 else min(needed, spare)

    def room_for(self, batch: RecordBatchBuilder, rows: Any, first: int, sizes: Any) -> int:
        """Return the number of bytes that write() reserves in a batch for these rows.

        If the rows fill a quarter of the remaining room up to the write limit, all of that room is reserved at once.
        """
        room = batch.write_limit - batch._at
        if batch.records_count == 0:
            room = max(room, sizes[rows[first] - self.first_row])
        needed = 0
        for index in range(first, len(rows)):
            needed += sizes[rows[index] - self.first_row] - RECORDS_AT
            if GROWTH * needed >= room:
                return room
        return needed

    def write_rows(self, target: Any, batch: RecordBatchBuilder, rows: Any, first: int, sizes: Any) -> int:
        """Do the work of write() in the batch's buffer `target`, in which the caller has reserved memory. Return the same as write()."""
        if batch.records_count == 0:
            batch.base_timestamp = batch.max_timestamp = self.timestamps[rows[first] - self.first_row]
        index = first
        last = len(rows) - ROWS_AHEAD if self.value.present else 0
        while index < len(rows):
            row = rows[index] - self.first_row
            if not self.write_row(target, batch, row, sizes[row] - MAX_ROW_OVERHEAD):
                break
            index += 1
            if index < last:
                self.value.fetch(rows[index + ROWS_AHEAD] - self.first_row)
        return index

    def write_row(self, target: Any, batch: RecordBatchBuilder, row: int, fields: int) -> bool:
        """Append one row, whose key, value and headers take `fields` bytes.

        Returns False, and does not append the row, if the batch would exceed its write limit.
        """
        timestamp = self.timestamps[row]
        delta = timestamp - batch.base_timestamp
        count = batch.records_count
        body = 1 + varint_size(delta) + varint_size(count) + fields
        if count > 0 and batch._at + varint_size(body) + body > batch.write_limit:
            return False
        at = write_varint(target, batch._at, body)
        at = write_deltas(target, at, delta, count)
        at = self.key.write(target, at, row)
        at = self.value.write(target, at, row)
        at = self.headers.write(target, at, row)
        if at - batch._at > batch.largest_record:
            batch.largest_record = at - batch._at
        batch._at = at
        batch.records_count = count + 1
        if timestamp > batch.max_timestamp:
            batch.max_timestamp = timestamp
        return True


def assign_sticky(partitions: Any, sizes: Any, row: int, partition: int, room: int, most: int) -> tuple[int, int]:
    """Assign the sticky partition to rows without a partition, beginning with row `row`, until `room` bytes are used.

    sizes: set by RowWriter.measure(). most: the value of `room` for a newly chosen sticky partition.
    Return the row at which to continue, and the bytes of `room` that remain. 0 bytes mean that the next sticky partition has to be chosen.
    """
    while row < len(partitions):
        if partitions[row] == NO_PARTITION:
            size = sizes[row] - RECORDS_AT
            if size > room and room < most:
                return row, 0
            partitions[row] = partition
            room -= size
            if room <= 0:
                return row + 1, 0
        row += 1
    return row, room


def take_given(given: Any, validity: Any, shift: int, count: int, partitions: Any) -> int:
    """Set each row's partition to the one that is given: UNASSIGNED for null, REJECTED for a partition that does not exist.

    given: an int64 for each row. validity: Arrow's validity bits, the first row's at `shift`; None if no value is null. count: the topic's
    number of partitions. partitions: an int32 for each row. Return how many rows are rejected.
    """
    rejected = 0
    nullable = validity is not None
    for row in range(len(partitions)):
        if nullable and not validity[(row + shift) >> 3] >> ((row + shift) & 7) & 1:
            partitions[row] = NO_PARTITION
        elif 0 <= given[row] < count:
            partitions[row] = given[row]
        else:
            partitions[row] = BAD_ROW
            rejected += 1
    return rejected


def group_rows(partitions: Any, first_row: int, starts: Any, rows: Any) -> None:
    """Sort row numbers by partition. The rows of partition p keep their order and become rows[starts[p]] to rows[starts[p + 1] - 1].

    partitions: an int32 for each row; rows with a negative partition are omitted. first_row: the number of the first row. starts: int64
    zeros, one more than the number of partitions. rows: an int64 array for the sorted row numbers.
    """
    with cython.nogil:
        sort_rows(partitions, first_row, starts, rows)


def sort_rows(partitions: Any, first_row: int, starts: Any, rows: Any) -> None:
    """Do the work of group_rows() without the interpreter lock: count, add up, place rows, and move the starts back."""
    for row in range(len(partitions)):
        if partitions[row] >= 0:
            starts[partitions[row] + 1] += 1
    for partition in range(1, len(starts)):
        starts[partition] += starts[partition - 1]
    for row in range(len(partitions)):
        if partitions[row] >= 0:
            rows[starts[partitions[row]]] = first_row + row
            starts[partitions[row]] += 1
    for partition in range(len(starts) - 1, 0, -1):
        starts[partition] = starts[partition - 1]
    starts[0] = 0

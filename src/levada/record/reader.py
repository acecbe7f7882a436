# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads records, or whole columns, from the decompressed payload of one record batch.

RecordWalker reads the payload record by record and knows all rules of its format. A record then becomes a Record, a LazyRecord that
stores the positions of its fields (levada.record.lazy), or a row in column memory that the caller provides. Compiled code fills columns
without Python objects and without the interpreter lock; the C types are in reader.pxd. Interpreted, the same lines use bytes and
memoryviews.

advance() does not raise: it stops and sets `fault`. check() raises the error later, when the interpreter lock is held again.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.errors import CorruptRecordError
from levada.record.record import Header, Record
from levada.types import AnyRecord, ConsumerRecord

if cython.compiled:
    from cython.cimports.cpython.ref import Py_INCREF  # type: ignore[import-untyped]
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

T = TypeVar("T", bound=tuple[Any, ...])

COMPILED: bool = cython.compiled

# Length, attributes, both deltas, key length, value length, header count: at least one byte each.
MIN_RECORD_SIZE = 7

FAULTS = (
    "",
    "a record's length does not fit the bytes that remain",
    "a record ends before its fields do",
    "a key's length does not fit its record",
    "a value's length does not fit its record",
    "a record's headers do not fit it",
    "a record is longer than its fields",
    "bytes are left over after the last record",
    "offset deltas do not ascend up to the batch's last offset delta",
    "a record's timestamp is out of range",
)
RECORD_LENGTH, TRUNCATED, KEY, VALUE, HEADERS, LONG_RECORD, LEFT_OVER, OFFSET, TIMESTAMP = range(1, 10)

MOST = 2**63 - 1
LEAST = -MOST - 1  # C cannot write -(2**63) down.


def copy_bytes(target: Any, to: int, source: Any, start: int, size: int) -> None:
    """Copy `size` bytes from position `start` of `source` to position `to` of `target`. The caller has checked that both have the bytes."""
    if cython.compiled:
        memcpy(target + to, source + start, size)
    else:
        target[to : to + size] = source[start : start + size]


def new_tuple(kind: type[T], fields: tuple[Any, ...]) -> T:
    """Return a NamedTuple of class `kind`. fields: the values of all fields, in order. The constructor of `kind` takes three times as long.

    The garbage collector does not track the tuple, because its fields cannot be part of a reference cycle. So it need not visit all records
    that a program keeps.
    """
    if cython.compiled:
        made: T = new_untracked(kind, len(fields))  # type: ignore[name-defined]  # noqa: F821 - C, see reader.pxd
        for at in range(len(fields)):
            set_field(made, at, fields[at])
        return made
    return tuple.__new__(kind, fields)


def new_consumer_record(
    topic: Any, partition: Any, offset: Any, timestamp: Any, timestamp_type: Any, key: Any, value: Any, headers: Any, leader_epoch: Any
) -> AnyRecord:
    """Return a ConsumerRecord. The result is the same as that of new_tuple(), but no tuple of the nine fields is made for the call."""
    if cython.compiled:
        made: AnyRecord = new_untracked(ConsumerRecord, 9)  # type: ignore[name-defined]  # noqa: F821
        set_field(made, 0, topic)
        set_field(made, 1, partition)
        set_field(made, 2, offset)
        set_field(made, 3, timestamp)
        set_field(made, 4, timestamp_type)
        set_field(made, 5, key)
        set_field(made, 6, value)
        set_field(made, 7, headers)
        set_field(made, 8, leader_epoch)
        return made
    return tuple.__new__(ConsumerRecord, (topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch))


def set_field(made: Any, at: int, field: Any) -> None:
    """Set the field at index `at` of a new tuple, in which this field is not set yet. For compiled code only."""
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, at, field)


class RecordWalker:
    """Reads the records in the decompressed payload of a batch, one after the other.

    After advance() the attributes hold the current record's offset and timestamp, and the positions and sizes of its other fields.
    """

    def __init__(
        self, payload: Any, count: int, base_offset: int, last_offset_delta: int, base_timestamp: int, append_time: int | None
    ) -> None:
        """payload: the uncompressed records of a batch. The other arguments are from its header. count: the number of records.

        append_time: the timestamp of every record if the batch has LogAppendTime, otherwise None. Raises CorruptRecordError if the payload
        is too short for so many records.
        """
        if count > len(payload) // MIN_RECORD_SIZE:
            raise CorruptRecordError(f"record batch at offset {base_offset}: {count} records cannot fit in {len(payload)} bytes")
        self.view = payload
        if cython.compiled:
            self.source = cython.address(self.view[0])
        else:
            self.source = bytes(payload)
        self.whole = len(payload)
        first_time = base_timestamp if append_time is None else append_time
        self.enter(0, self.whole, count, base_offset, last_offset_delta, first_time, append_time is not None)

    def enter(
        self, at: int, end: int, count: int, base_offset: int, last_offset_delta: int, timestamp: int, stamped_by_broker: bool
    ) -> None:
        """Move to the start of a batch's records, so that advance() reads the first record next.

        at, end: the positions in the payload where the records begin and end. count: the number of records. timestamp: the base timestamp,
        or, if stamped_by_broker (LogAppendTime), the timestamp of every record.
        """
        self.end = end
        self.count = count
        self.base_offset = base_offset
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = self.timestamp = timestamp
        self.stamped_by_broker = stamped_by_broker
        self.offset_delta = -1
        self.offset = base_offset
        self.at = at
        self.seen = 0
        self.fault = 0
        self.held = False

    @property
    def finished(self) -> bool:
        """Whether all records have been read and taken. A record that a sink or an end offset did not admit is read, but not taken."""
        return not self.held and self.seen == self.count

    def advance(self) -> bool:
        """Read the next record. Returns False after the last record, and when it sets `fault`."""
        if self.seen == self.count:
            if self.at != self.end:
                self.fail(LEFT_OVER)
            return False
        at, length = self.varint(self.at, self.end)
        if at < 0 or length < 1 or length > self.end - at:
            return self.fail(RECORD_LENGTH)
        # A byte of attributes comes first; Kafka does not use it yet.
        return self.read_record(at + 1, at + length)

    def read_record(self, at: int, stop: int) -> bool:
        """Read the record whose fields (deltas, key, value, headers) lie between the positions `at` and `stop`.

        Returns False, and sets `fault`, if the record is corrupt.
        """
        at, timestamp_delta = self.varint(at, stop)
        at, offset_delta = self.varint(at, stop)
        if at < 0:
            return self.fail(TRUNCATED)
        if not self.place(offset_delta, timestamp_delta):
            return False
        at, size = self.varint(at, stop)
        if at < 0 or size < -1 or size > stop - at:
            return self.fail(KEY)
        self.key_at = at
        self.key_size = size
        at, size = self.varint(at + size if size > 0 else at, stop)
        if at < 0 or size < -1 or size > stop - at:
            return self.fail(VALUE)
        self.value_at = at
        self.value_size = size
        at = self.skip_headers(at + size if size > 0 else at, stop)
        if at != stop:
            return self.fail(HEADERS if at < 0 else LONG_RECORD)
        self.at = stop
        self.seen += 1
        return True

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Read a zigzag varint of at most 64 bits at position `at`. Return the position after the varint, and its value.

        The returned position is -1 if there is no such varint that ends by position `end`, or if `at` is -1.
        """
        if at < 0 or at >= end:
            return -1, 0
        byte = self.source[at]
        if byte < 0x80:
            return at + 1, (byte >> 1) ^ -(byte & 1)
        return self.long_varint(at, end)

    def long_varint(self, at: int, end: int) -> tuple[int, int]:
        """Do the work of varint() for a varint of more than one byte."""
        raw = 0
        shift = 0
        while at < end and shift < 64:
            byte = self.source[at]
            if shift == 63 and byte > 1:
                break
            # A variable of 64 bits: without it C would shift an int.
            low = byte & 0x7F
            raw |= low << shift
            at += 1
            if byte < 0x80:
                return at, (raw >> 1) ^ -(raw & 1)
            shift += 7
        return -1, 0

    def place(self, offset_delta: int, timestamp_delta: int) -> bool:
        """Set the record's offset and timestamp from its deltas. Returns False, and sets `fault`, if the deltas are invalid."""
        if offset_delta <= self.offset_delta or offset_delta > self.last_offset_delta:
            return self.fail(OFFSET)
        self.offset_delta = offset_delta
        self.offset = self.base_offset + offset_delta
        if self.stamped_by_broker:
            return True
        base = self.base_timestamp
        if (timestamp_delta > MOST - base) if base > 0 else (timestamp_delta < LEAST - base):
            return self.fail(TIMESTAMP)
        self.timestamp = base + timestamp_delta
        return True

    def skip_headers(self, at: int, stop: int) -> int:
        """Skip the headers at position `at` and add up the sizes of their keys and values. Return the position after the headers.

        Returns -1 if the headers are corrupt, or do not end by position `stop`, the end of the record.
        """
        self.headers_at = at
        self.header_key_bytes = 0
        self.header_value_bytes = 0
        at, count = self.varint(at, stop)
        self.header_count = count
        if at < 0 or count == 0:
            return at
        if count < 0 or count > stop - at:
            return -1
        for _ in range(count):
            at, size = self.varint(at, stop)
            if at < 0 or size < 0 or size > stop - at:
                return -1
            self.header_key_bytes += size
            at, size = self.varint(at + size, stop)
            if at < 0 or size < -1 or size > stop - at:
                return -1
            if size > 0:
                self.header_value_bytes += size
                at += size
        return at

    def fail(self, fault: int) -> bool:
        """Set `fault`, the index of the reason in FAULTS why reading stops, and return False."""
        self.fault = fault
        return False

    def check(self) -> None:
        """Raise CorruptRecordError if `fault` is set."""
        if self.fault:
            raise CorruptRecordError(
                f"record batch at offset {self.base_offset}: {FAULTS[self.fault]} (record {self.seen + 1} of {self.count}, byte {self.at})"
            )

    def headers(self, at: int) -> tuple[Header, ...]:
        """Return the headers of a record. at: the position of their count in the payload.

        As in Java's client, bytes of a header key that are not UTF-8 become U+FFFD.
        """
        at, count = self.varint(at, self.end)
        if count == 0:
            return ()
        headers = []
        for _ in range(count):
            at, size = self.varint(at, self.end)
            name = self.source[at : at + size].decode("utf-8", "replace")
            at, size = self.varint(at + size, self.end)
            headers.append((name, self.source[at : at + size] if size >= 0 else None))
            at += max(size, 0)
        return tuple(headers)

    def field(self, at: int, size: int) -> bytes | None:
        """Return the key or value at position `at` of the payload. size: its bytes, or -1 for null."""
        return self.source[at : at + size] if size >= 0 else None

    def record(self) -> Record:
        """Return the current record."""
        headers = self.headers(self.headers_at) if self.header_count else ()
        key, value = self.field(self.key_at, self.key_size), self.field(self.value_at, self.value_size)
        return new_tuple(Record, (self.offset, self.timestamp, key, value, headers))

    def records(self) -> list[Record]:
        """Return all records after the current one; raises CorruptRecordError."""
        found = []
        while self.advance():
            found.append(self.record())
        self.check()
        return found

    def consumer_records(
        self, topic: str, partition: int, timestamp_type: int, leader_epoch: int, start: int = 0, end: int = MOST, limit: int = MOST
    ) -> list[AnyRecord]:
        """Return the records with offsets from `start` up to, not including, `end`, as ConsumerRecords; at most `limit` records.

        The next call continues after the last returned record. Raises CorruptRecordError.
        """
        found: list[AnyRecord] = []
        # Often a record has the timestamp of the previous record.
        stamp, known = 0, 0
        while len(found) < limit and self.go_on():
            if self.offset < start:
                continue
            if self.offset >= end:
                self.held = True
                break
            headers = self.headers(self.headers_at) if self.header_count else ()
            key, value = self.field(self.key_at, self.key_size), self.field(self.value_at, self.value_size)
            if self.timestamp != known:
                stamp = known = self.timestamp
            found.append(new_consumer_record(topic, partition, self.offset, stamp, timestamp_type, key, value, headers, leader_epoch))
        if self.seen == self.count and self.at != self.end:
            self.fail(LEFT_OVER)
        self.check()
        return found

    def go_on(self) -> bool:
        """Do what advance() does. But if a caller did not take the current record (`held`), stay at this record."""
        if self.held:
            self.held = False
            return True
        return self.advance()


class BinarySink:
    """Fills an Arrow binary column. The owner provides buffers for bytes, int32 offsets and validity bits. All validity bits must be 1."""

    def __init__(self) -> None:
        self.rows = 0
        self.size = 0
        self.nulls = 0
        self.capacity = 0

    def attach(self, data: Any, offsets: Any, validity: Any) -> None:
        """Continue in these buffers, which already contain the values added so far and have memory for more values."""
        self.capacity = len(data)
        self.data_view = data
        self.offsets_view = offsets
        self.validity_view = validity
        if cython.compiled:
            self.data = cython.address(self.data_view[0])
            self.offsets = cython.address(self.offsets_view[0])
            self.validity = cython.address(self.validity_view[0])
        else:
            self.data, self.offsets, self.validity = data, offsets, validity
        self.offsets[self.rows] = self.size

    def put(self, source: Any, at: int, size: int) -> None:
        """Add the value at position `at` of `source`. size: its bytes, or -1 for null."""
        if size < 0:
            self.validity[self.rows >> 3] &= ~(1 << (self.rows & 7))
            self.nulls += 1
        else:
            copy_bytes(self.data, self.size, source, at, size)
            self.size += size
        self.rows += 1
        self.offsets[self.rows] = self.size

    def rewind(self, rows: int) -> None:
        """Remove the values from row `rows` on."""
        for row in range(rows, self.rows):
            if not self.validity[row >> 3] & (1 << (row & 7)):
                self.validity[row >> 3] |= 1 << (row & 7)
                self.nulls -= 1
        self.rows = rows
        self.size = self.offsets[rows]


class HeaderSink:
    """Fills the headers column: list offsets for each row, and two binary columns of all header keys and all header values.

    Headers are rare, and their number is not known before the records are read. So note() stores only the position and the sizes of a
    record's headers. The owner then allocates exactly the memory that the two binary columns need, and copy() fills them.
    """

    def __init__(self) -> None:
        self.keys = BinarySink()
        self.values = BinarySink()
        self.rows = self.first = self.noted = self.key_bytes = self.value_bytes = 0

    def attach(self, offsets: Any, places: Any) -> None:
        """Set the buffers for the next rows. offsets: int32 list offsets, for all rows since the first call.

        places: an int64 for each row that note() adds until copy() is called; note() stores the position of the row's headers there.
        """
        self.offsets = offsets
        self.places = places
        self.offsets[self.rows] = self.noted
        self.first = self.rows

    def fits(self, walker: RecordWalker, room: int) -> bool:
        """Whether the current record's headers can be added without more than `room` bytes of header keys or of header values in total."""
        return walker.header_key_bytes <= room - self.key_bytes and walker.header_value_bytes <= room - self.value_bytes

    def note(self, walker: RecordWalker) -> None:
        """Add a row for the current record: its number of headers, and the position and sizes of the headers."""
        self.places[self.rows - self.first] = walker.headers_at
        self.noted += walker.header_count
        self.key_bytes += walker.header_key_bytes
        self.value_bytes += walker.header_value_bytes
        self.rows += 1
        self.offsets[self.rows] = self.noted

    def rewind(self, rows: int) -> None:
        """Remove the rows from index `rows` on. copy() must have copied all rows before that index, and none from it on."""
        self.rows = rows
        self.noted = self.keys.rows
        self.key_bytes = self.keys.size
        self.value_bytes = self.values.size

    def copy(self, walker: RecordWalker) -> None:
        """Copy the headers of all rows that note() has added since attach() into the columns of keys and values."""
        with cython.nogil:
            self.copy_rows(walker)

    def copy_rows(self, walker: RecordWalker) -> None:
        """Do the work of copy() without the interpreter lock."""
        for row in range(self.first, self.rows):
            at, count = walker.varint(self.places[row - self.first], walker.end)
            for _ in range(count):
                at, size = walker.varint(at, walker.end)
                self.keys.put(walker.source, at, size)
                at, size = walker.varint(at + size, walker.end)
                self.values.put(walker.source, at, size)
                at += max(size, 0)


class RecordSink:
    """Fills the columns whose values differ from record to record.

    columns: the columns to fill, of key, value, headers, offset and timestamp. Other columns are not read.
    room: the maximum number of bytes in a binary column, so that int32 offsets suffice.
    """

    def __init__(self, columns: Container[str], room: int) -> None:
        self.key = BinarySink()
        self.value = BinarySink()
        self.headers = HeaderSink()
        self.wants_key = "key" in columns
        self.wants_value = "value" in columns
        self.wants_headers = "headers" in columns
        self.wants_offset = "offset" in columns
        self.wants_timestamp = "timestamp" in columns
        self.room = room
        self.rows = 0

    def attach(self, offsets: Any, timestamps: Any) -> None:
        """Set the int64 buffers for offsets and timestamps. None for a column that is not to be filled."""
        self.offsets = offsets
        self.timestamps = timestamps

    def fill(self, walker: RecordWalker, start: int, end: int, limit: int) -> bool:
        """Add the records with offsets from `start` up to, not including, `end`, until the columns have `limit` rows.

        Returns False if the walker's last record was reached. Returns True if a record was not added because of `end`, `limit` or missing
        memory; the next call begins with that record. If fill() raises CorruptRecordError, nothing has been added.
        """
        before = self.rows
        with cython.nogil:
            stopped = self.run(walker, start, end, limit)
        if walker.fault:
            self.rewind(before)
            walker.check()
        return stopped

    def run(self, walker: RecordWalker, start: int, end: int, limit: int) -> bool:
        """Do the work of fill() without the interpreter lock. Return the result of fill()."""
        while walker.go_on():
            if walker.offset < start:
                continue
            if walker.offset >= end or self.rows >= limit or not self.fits(walker):
                walker.held = True
                return True
            self.put(walker)
        return False

    def fits(self, walker: RecordWalker) -> bool:
        """Whether the current record can be added: no column would exceed `room` or its buffer."""
        if self.wants_headers and not self.headers.fits(walker, self.room):
            return False
        if self.wants_key and walker.key_size > min(self.room, self.key.capacity) - self.key.size:
            return False
        return not (self.wants_value and walker.value_size > min(self.room, self.value.capacity) - self.value.size)

    def put(self, walker: RecordWalker) -> None:
        """Add the current record."""
        if self.wants_key:
            self.key.put(walker.source, walker.key_at, walker.key_size)
        if self.wants_value:
            self.value.put(walker.source, walker.value_at, walker.value_size)
        if self.wants_offset:
            self.offsets[self.rows] = walker.offset
        if self.wants_timestamp:
            self.timestamps[self.rows] = walker.timestamp
        if self.wants_headers:
            self.headers.note(walker)
        self.rows += 1

    def rewind(self, rows: int) -> None:
        """Remove the rows from index `rows` on."""
        self.rows = rows
        if self.wants_key:
            self.key.rewind(rows)
        if self.wants_value:
            self.value.rewind(rows)
        if self.wants_headers:
            self.headers.rewind(rows)

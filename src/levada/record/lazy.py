# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, nonecheck=True
"""Records for a loop over a batch: positions in the payload. A field becomes an object only when the loop reads it.

In compiled code most of a loop's time goes neither into finding records nor into copying fields, but into CPython's work around them.
Therefore two things here are unusual. A record to which the loop no longer refers is used again for the next record but one: no program can
notice this, and nothing is allocated. And field names are compared by identity, because the lookup of a property in its type takes longer
than making the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.record.reader import RecordWalker
from levada.record.record import Header

if cython.compiled:
    from cython.cimports.cpython.ref import Py_REFCNT  # type: ignore[import-untyped]

# Interned, like attribute names in programs, so that names can be compared by identity.
OFFSET, TIMESTAMP, KEY, VALUE, HEADERS = "offset", "timestamp", "key", "value", "headers"


class LazyRecord:
    """A record that stores the positions of its fields in the payload. Each access to key, value or headers makes a new object.

    The record keeps the whole payload in memory. offset, timestamp (ms since the epoch), key, value and headers mean the same as in Record.
    """

    walker: RecordWalker

    def take(self, walker: RecordWalker) -> None:
        """Store the offset, the timestamp and the field positions of the walker's current record in this object."""
        self.offset = walker.offset
        self.timestamp = walker.timestamp
        self.key_at = walker.key_at
        self.key_size = walker.key_size
        self.value_at = walker.value_at
        self.value_size = walker.value_size
        self.headers_at = walker.headers_at

    def field(self, at: int, size: int) -> bytes | None:
        """Return the key or value at position `at` of the payload. size: its bytes, or -1 for null."""
        return self.walker.source[at : at + size] if size >= 0 else None

    @property
    def key(self) -> bytes | None:
        """The key; None is null."""
        return self.field(self.key_at, self.key_size)

    @property
    def value(self) -> bytes | None:
        """The value; None is null."""
        return self.field(self.value_at, self.value_size)

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers, in order."""
        return self.walker.headers(self.headers_at)

    if cython.compiled and not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            """Return an attribute of Record faster than a property does. Look up other names, and names not interned, in the usual way."""
            if name is VALUE:
                return self.field(self.value_at, self.value_size)
            if name is KEY:
                return self.field(self.key_at, self.key_size)
            if name is OFFSET:
                return self.offset
            if name is TIMESTAMP:
                return self.timestamp
            if name is HEADERS:
                return self.walker.headers(self.headers_at)
            return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        shown = f"offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}"
        return f"LazyRecord({shown}, headers={self.headers!r})"


def lazy_record(walker: RecordWalker) -> LazyRecord:
    """Return a new LazyRecord of this walker's payload. take() has to set its positions before it is used.

    The garbage collector does not track the record, because no object that the record refers to ever refers to a record.
    """
    made = LazyRecord.__new__(LazyRecord)
    made.walker = walker
    if cython.compiled:
        PyObject_GC_UnTrack(made)  # type: ignore[name-defined]  # noqa: F821 - C, see lazy.pxd
    return made


def is_free(record: LazyRecord) -> bool:
    """Whether the program has dropped the record, so that only one attribute and one local variable of LazyRecords refer to it.

    Always False in interpreted code, which does not count references exactly.
    """
    return Py_REFCNT(record) == 2 if cython.compiled else False


class LazyRecords:
    """Iterates over the records of a walker.

    A loop drops its reference to a record when it gets the next record. So two LazyRecord objects are used in turn, and new objects are
    made only if the program keeps the old ones.
    """

    def __init__(self, walker: RecordWalker) -> None:
        self.walker = walker
        self.last = lazy_record(walker)
        self.spare = lazy_record(walker)

    def __iter__(self) -> LazyRecords:
        return self

    def __next__(self) -> LazyRecord:
        """Return the next record. Raises CorruptRecordError if that record is corrupt, or if bytes are left over after the last record."""
        # Two threads that shared this iterator could otherwise combine the positions of different records.
        with cython.critical_section(self):
            if not self.walker.advance():
                self.walker.check()
                raise StopIteration
            record = self.spare
            if not is_free(record):
                record = lazy_record(self.walker)
            record.take(self.walker)
            self.spare = self.last
            self.last = record
            return record

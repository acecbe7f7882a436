# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, nonecheck=True
"""Records as a loop over a batch gets them: places in the payload, of which only what is looked at becomes an object.

What a loop costs, compiled, is neither finding the records nor copying what is asked for, but what CPython does around them. So two things
are done here that look unusual. A record that the loop has let go of becomes the next but one: nobody can tell, and nothing is allocated.
And the fields' names are told by their identity, since looking a property up in its type takes longer than making the field.
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

# Interned, as names in programs are.
OFFSET, TIMESTAMP, KEY, VALUE, HEADERS = "offset", "timestamp", "key", "value", "headers"


class LazyRecord:
    """One record of a payload, as iteration hands it out: key, value and headers are made when they are asked for, anew each time.

    It keeps the whole payload in memory. offset, timestamp (ms since the epoch), key, value and headers are those of Record.
    """

    walker: RecordWalker

    def take(self, walker: RecordWalker) -> None:
        """Become the current record of the walker."""
        self.offset = walker.offset
        self.timestamp = walker.timestamp
        self.key_at = walker.key_at
        self.key_size = walker.key_size
        self.value_at = walker.value_at
        self.value_size = walker.value_size
        self.headers_at = walker.headers_at

    def field(self, at: int, size: int) -> bytes | None:
        """Return the key or value at `at`; a size of -1 is null."""
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
            """Do what the properties do, and hand on what is none of them, or has a name from elsewhere."""
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
    """Return a new record, which is none yet, of this walker's payload.

    The garbage collector need not know it: what it refers to never refers to a record.
    """
    made = LazyRecord.__new__(LazyRecord)
    made.walker = walker
    if cython.compiled:
        PyObject_GC_UnTrack(made)  # type: ignore[name-defined]  # noqa: F821 - C, see lazy.pxd
    return made


def is_free(record: LazyRecord) -> bool:
    """Whether nobody has the record but one attribute and one local variable; never, where that cannot be told."""
    return Py_REFCNT(record) == 2 if cython.compiled else False


class LazyRecords:
    """Steps through the records of a walker.

    A loop lets go of a record when it has got the next, so two of them take turns, unless they are kept.
    """

    def __init__(self, walker: RecordWalker) -> None:
        self.walker = walker
        self.last = lazy_record(walker)
        self.spare = lazy_record(walker)

    def __iter__(self) -> LazyRecords:
        return self

    def __next__(self) -> LazyRecord:
        """Return the next record; raises CorruptRecordError where the walk ends at a fault."""
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

# C types of lazy.py.

cimport cython

from levada.record.reader cimport RecordWalker

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object made)

cdef str OFFSET, TIMESTAMP, KEY, VALUE, HEADERS


@cython.final
cdef class LazyRecord:
    cdef RecordWalker walker
    cdef readonly long long offset, timestamp
    cdef Py_ssize_t key_at, key_size, value_at, value_size, headers_at

    cdef inline void take(self, RecordWalker walker) noexcept
    cdef inline bytes field(self, Py_ssize_t at, Py_ssize_t size)


@cython.locals(made=LazyRecord)
cdef LazyRecord lazy_record(RecordWalker walker)
cdef inline bint is_free(LazyRecord record) noexcept


@cython.final
cdef class LazyRecords:
    cdef RecordWalker walker
    cdef LazyRecord last, spare

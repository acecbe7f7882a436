# C types of reader.py.

cimport cython

cdef extern from *:
    """
    /* A tuple that the garbage collector does not know, and whose fields are to be set. kind: without a dict of its own. */
    static inline PyObject *new_untracked(PyObject *kind, Py_ssize_t size) {
        PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, (PyTypeObject *) kind, size);
    #if PY_VERSION_HEX >= 0x030E0000
        /* Since 3.14 a tuple keeps its hash, once it is computed. */
        if (made != NULL) made->ob_hash = -1;
    #endif
        return (PyObject *) made;
    }
    """
    object new_untracked(object kind, Py_ssize_t size)

cdef int RECORD_LENGTH, TRUNCATED, KEY, VALUE, HEADERS, LONG_RECORD, LEFT_OVER, OFFSET, TIMESTAMP
cdef long long MOST, LEAST

@cython.locals(made=object, at=Py_ssize_t)
cdef object new_tuple(type kind, tuple fields)
@cython.locals(made=object)
cdef object new_consumer_record(object topic, object partition, object offset, object timestamp, object timestamp_type, object key, object value, object headers, object leader_epoch)
cdef inline void set_field(object made, Py_ssize_t at, object field)
cdef void copy_bytes(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil


@cython.final
cdef class RecordWalker:
    cdef const unsigned char[::1] view
    cdef const unsigned char* source
    cdef readonly Py_ssize_t whole
    cdef Py_ssize_t end, at, key_at, key_size, value_at, value_size, headers_at
    cdef Py_ssize_t header_key_bytes, header_value_bytes
    cdef long long count, seen, header_count
    cdef long long base_offset, base_timestamp, last_offset_delta, offset_delta
    cdef readonly long long offset, timestamp
    cdef bint stamped_by_broker, held
    cdef readonly int fault

    cdef void enter(self, Py_ssize_t at, Py_ssize_t end, long long count, long long base_offset, long long last_offset_delta, long long timestamp, bint stamped_by_broker) noexcept nogil
    @cython.locals(at=Py_ssize_t, length=cython.longlong)
    cpdef bint advance(self) noexcept nogil
    @cython.locals(size=cython.longlong, timestamp_delta=cython.longlong, offset_delta=cython.longlong)
    cdef bint read_record(self, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.locals(byte=cython.int)
    cdef inline (Py_ssize_t, long long) varint(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(raw=cython.ulonglong, low=cython.ulonglong, shift=cython.int, byte=cython.int)
    cdef (Py_ssize_t, long long) long_varint(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(base=cython.longlong)
    cdef inline bint place(self, long long offset_delta, long long timestamp_delta) noexcept nogil
    @cython.locals(size=cython.longlong, count=cython.longlong, _=cython.longlong)
    cdef Py_ssize_t skip_headers(self, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    cdef bint fail(self, int fault) noexcept nogil
    cpdef check(self)
    @cython.locals(size=cython.longlong, count=cython.longlong, _=cython.longlong)
    cdef tuple headers(self, Py_ssize_t at)
    cdef inline bytes field(self, Py_ssize_t at, Py_ssize_t size)
    cpdef record(self)
    cpdef list records(self)
    @cython.locals(found=list, stamp=object, known=cython.longlong)
    cpdef list consumer_records(self, str topic, object partition, object timestamp_type, object leader_epoch, long long start=*, long long end=*, long long limit=*)
    cdef inline bint go_on(self) noexcept nogil


@cython.final
cdef class BinarySink:
    cdef unsigned char[::1] data_view, validity_view
    cdef int[::1] offsets_view
    cdef unsigned char* data
    cdef unsigned char* validity
    cdef int* offsets
    cdef readonly Py_ssize_t rows, size, nulls, capacity

    cdef inline void put(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cpdef rewind(self, Py_ssize_t rows)


@cython.final
cdef class HeaderSink:
    cdef readonly BinarySink keys, values
    cdef int[::1] offsets
    cdef long long[::1] places
    cdef readonly Py_ssize_t rows, noted, key_bytes, value_bytes
    cdef Py_ssize_t first

    cdef bint fits(self, RecordWalker walker, Py_ssize_t room) noexcept nogil
    cdef void note(self, RecordWalker walker) noexcept nogil
    cpdef rewind(self, Py_ssize_t rows)
    cpdef copy(self, RecordWalker walker)
    @cython.locals(row=Py_ssize_t, at=Py_ssize_t, size=cython.longlong, count=cython.longlong, _=cython.longlong)
    cdef void copy_rows(self, RecordWalker walker) noexcept nogil


@cython.final
cdef class RecordSink:
    cdef readonly BinarySink key, value
    cdef readonly HeaderSink headers
    cdef bint wants_key, wants_value, wants_headers, wants_offset, wants_timestamp
    cdef long long[::1] offsets, timestamps
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t rows

    @cython.locals(before=Py_ssize_t, stopped=cython.bint)
    cpdef bint fill(self, RecordWalker walker, long long start, long long end, Py_ssize_t limit) except *
    cdef bint run(self, RecordWalker walker, long long start, long long end, Py_ssize_t limit) noexcept nogil
    cdef inline bint fits(self, RecordWalker walker) noexcept nogil
    cdef inline void put(self, RecordWalker walker) noexcept nogil
    cpdef rewind(self, Py_ssize_t rows)

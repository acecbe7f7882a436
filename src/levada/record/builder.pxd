# C types of builder.py.

cimport cython

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define levada_prefetch(place) (__builtin_prefetch(place), __builtin_prefetch((place) + 64))
    #else
    #define levada_prefetch(place)
    #endif
    """
    void prefetch "levada_prefetch"(const unsigned char* place) noexcept nogil

cdef int FULL, STARVED, ROWS_AHEAD, GROWTH, NO_PARTITION, BAD_ROW, RECORDS_AT, MAX_ROW_OVERHEAD, MAX_LENGTH_SIZE
cdef long long MOST
cdef bytes NO_HEADERS

@cython.locals(zigzag=cython.ulonglong, size=cython.int)
cdef inline int varint_size(long long value) noexcept nogil
cdef inline Py_ssize_t field_size(Py_ssize_t size) noexcept nogil
@cython.locals(zigzag=cython.ulonglong)
cdef inline Py_ssize_t write_varint(unsigned char* target, Py_ssize_t at, long long value) noexcept nogil
cdef inline Py_ssize_t write_field(unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil
cdef inline Py_ssize_t write_bytes(unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil
cdef inline Py_ssize_t write_deltas(unsigned char* target, Py_ssize_t at, long long timestamp_delta, long long offset_delta) noexcept nogil
cpdef bytes pack_headers(object headers)
@cython.locals(at=Py_ssize_t)
cdef _append_varint(bytearray target, long long value)


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly object codec, level
    cdef readonly Py_ssize_t write_limit, largest_record
    cdef readonly long long records_count, base_timestamp, max_timestamp
    cdef readonly double compression_ratio
    cdef public long long allowance
    cdef readonly long long wanted
    cdef double _factor
    cdef bint _closed
    cdef bytearray _buffer
    cdef object _built
    cdef Py_ssize_t _at

    cpdef Py_ssize_t append(self, long long timestamp, key, value, headers=*) except -1
    cpdef Py_ssize_t append_if_room(self, long long timestamp, key, value, bytes headers=*) except? -1
    @cython.locals(delta=cython.longlong, key_size=Py_ssize_t, value_size=Py_ssize_t, body=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _append(self, long long timestamp, key, value, bytes headers, bint always) except? -1
    cdef bint _fits(self, Py_ssize_t size) noexcept
    cpdef bint has_reached_limit(self) noexcept
    @cython.locals(missing=Py_ssize_t, grown=Py_ssize_t)
    cdef reserve(self, Py_ssize_t size)
    @cython.locals(target=cython.p_uchar, at=Py_ssize_t)
    cdef Py_ssize_t _write(self, Py_ssize_t body, long long delta, key, Py_ssize_t key_size, value, Py_ssize_t value_size, bytes headers) except -1


@cython.final
cdef class BinaryColumn:
    cdef bint present, nullable
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] validity
    cdef const long long[::1] offsets
    cdef Py_ssize_t shift

    cdef inline Py_ssize_t size(self, Py_ssize_t row) noexcept nogil
    cdef inline void fetch(self, Py_ssize_t row) noexcept nogil
    @cython.locals(size=Py_ssize_t, source="const unsigned char*")
    cdef inline Py_ssize_t write(self, unsigned char* target, Py_ssize_t at, Py_ssize_t row) noexcept nogil


@cython.final
cdef class HeaderColumn:
    cdef BinaryColumn lists, keys, values
    cdef const unsigned char[::1] common
    cdef Py_ssize_t common_count, common_size

    @cython.locals(size=Py_ssize_t)
    cdef inline Py_ssize_t count(self, Py_ssize_t row) noexcept nogil
    @cython.locals(count=Py_ssize_t, total=Py_ssize_t, index=Py_ssize_t, entry=Py_ssize_t, key_size=Py_ssize_t)
    cdef inline Py_ssize_t size(self, Py_ssize_t row) noexcept nogil
    @cython.locals(count=Py_ssize_t, index=Py_ssize_t, entry=Py_ssize_t, source="const unsigned char*")
    cdef inline Py_ssize_t write(self, unsigned char* target, Py_ssize_t at, Py_ssize_t row) noexcept nogil


@cython.final
cdef class RowWriter:
    cdef BinaryColumn key, value
    cdef HeaderColumn headers
    cdef const long long[::1] timestamps
    cdef readonly long long first_row

    cpdef measure(self, long long[::1] sizes)
    @cython.locals(row=Py_ssize_t, headers=Py_ssize_t)
    cdef void measure_rows(self, long long[::1] sizes) noexcept nogil
    @cython.locals(row=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t reject(self, const long long[::1] sizes, long long most, int[::1] partitions)
    @cython.locals(target=cython.p_uchar)
    cpdef Py_ssize_t write(self, RecordBatchBuilder batch, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes) except -1
    @cython.locals(left=cython.longlong, taken=cython.longlong, index=Py_ssize_t)
    cdef Py_ssize_t affordable(
        self, RecordBatchBuilder batch, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes, long long spare
    ) noexcept nogil
    @cython.locals(needed=cython.longlong)
    cdef long long growth(
        self, RecordBatchBuilder batch, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes, long long spare
    ) noexcept nogil
    @cython.locals(room=Py_ssize_t, needed=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t room_for(
        self, RecordBatchBuilder batch, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes
    ) noexcept nogil
    @cython.locals(index=Py_ssize_t, last=Py_ssize_t, row=Py_ssize_t)
    cdef Py_ssize_t write_rows(
        self, unsigned char* target, RecordBatchBuilder batch, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes
    ) noexcept nogil
    @cython.locals(timestamp=cython.longlong, delta=cython.longlong, count=cython.longlong, body=Py_ssize_t, at=Py_ssize_t)
    cdef inline bint write_row(self, unsigned char* target, RecordBatchBuilder batch, Py_ssize_t row, Py_ssize_t fields) noexcept nogil


@cython.locals(size=cython.longlong)
cpdef (Py_ssize_t, long long) assign_sticky(
    int[::1] partitions, const long long[::1] sizes, Py_ssize_t row, int partition, long long room, long long most
)
@cython.locals(row=Py_ssize_t, rejected=Py_ssize_t, nullable=cython.bint)
cpdef Py_ssize_t take_given(
    const long long[::1] given, const unsigned char[::1] validity, Py_ssize_t shift, Py_ssize_t count, int[::1] partitions
) except -1
cpdef group_rows(const int[::1] partitions, long long first_row, long long[::1] starts, long long[::1] rows)
@cython.locals(row=Py_ssize_t, partition=Py_ssize_t)
cdef void sort_rows(const int[::1] partitions, long long first_row, long long[::1] starts, long long[::1] rows) noexcept nogil

# C types of protobuf_reader.py.

cimport cython

from levada.formats.column_reader cimport ColumnReader, typed_column

cdef int NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP
cdef int NUMBER, ZIGZAG, FLAG, ENUM, BYTES, MESSAGE, ENTRY, TIME, REFUSED, SYMBOL
cdef int NULLED, FILLED, REQUIRED
cdef int VARINT, FIXED_8, DELIMITED, GROUP, FIXED_4
cdef Py_ssize_t HEADER_SIZE, MALFORMED
cdef int MOST_SHIFT, MOST_SMALL_SHIFT
cdef long long MOST_TAG, TAG_SECONDS, TAG_NANOS, MICROS, MOST_SECONDS
cdef unsigned long long MASK_32, MASK_64

cdef struct protobuf_step:
    int kind, wire, absence
    bint is_repeated, is_implicit, is_extendable
    long long number
    Py_ssize_t column, target, first, count, oneof
    unsigned long long value
    Py_ssize_t at, size
    long long mark, oneof_mark


@cython.final
cdef class ProtobufReader(ColumnReader):
    cdef bytearray steps_memory
    cdef unsigned char[::1] steps_view
    cdef const unsigned char[::1] constants_view, prefix_view
    cdef protobuf_step* steps
    cdef const unsigned char* constants
    cdef Py_ssize_t header_size
    cdef long long mark

    @cython.locals(step="protobuf_step*")
    cdef set_step(self, Py_ssize_t index, given)
    cdef inline typed_column* column(self, Py_ssize_t index) noexcept nogil
    cdef inline protobuf_step* step(self, Py_ssize_t index) noexcept nogil
    cpdef go_on(self)
    @cython.locals(place=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
    cdef void run(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t behind_header(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(step="protobuf_step*", field="protobuf_step*", mark=cython.longlong, place=Py_ssize_t, tag=cython.longlong, number=cython.longlong)
    cdef Py_ssize_t read_message(self, Py_ssize_t index, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef inline Py_ssize_t find(self, protobuf_step* step, Py_ssize_t guess, long long number) noexcept nogil
    @cython.locals(column="typed_column*")
    cdef bint put_absent(self, protobuf_step* field) noexcept nogil
    @cython.locals(field="protobuf_step*", of_oneof="protobuf_step*", size=cython.longlong)
    cdef Py_ssize_t read_field(self, Py_ssize_t index, long long mark, int wire, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(field="protobuf_step*", size=cython.longlong)
    cdef Py_ssize_t read_delimited(self, Py_ssize_t index, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(seconds=cython.longlong, nanos=cython.int, micros=cython.longlong, found=cython.longlong, tag=cython.longlong, bits=cython.ulonglong)
    cdef Py_ssize_t read_time(self, typed_column* column, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(field="protobuf_step*", symbol="protobuf_step*", column="typed_column*", bits=cython.ulonglong, number=cython.int, place=Py_ssize_t)
    cdef Py_ssize_t read_value(self, Py_ssize_t index, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef void put_bits(self, typed_column* column, unsigned long long bits) noexcept nogil
    @cython.locals(size=cython.longlong, _=cython.ulonglong)
    cdef Py_ssize_t skip(self, int wire, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(found=cython.longlong, part=cython.longlong, shift=cython.int, byte=cython.uchar)
    cdef inline (long long, Py_ssize_t) small(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(bits=cython.ulonglong, part=cython.ulonglong, shift=cython.int, byte=cython.uchar)
    cdef inline (unsigned long long, Py_ssize_t) varint(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(bits=cython.ulonglong, place=Py_ssize_t, byte=cython.uchar)
    cdef inline (unsigned long long, Py_ssize_t) fixed(self, Py_ssize_t size, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil

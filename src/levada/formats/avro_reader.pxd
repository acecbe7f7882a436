# C types of avro_reader.py.

cimport cython

from levada.formats.column_reader cimport ColumnReader, typed_column

cdef int NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP
cdef int NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL
cdef Py_ssize_t HEADER_SIZE, DECIMAL_SIZE, MALFORMED
cdef long long MOST_INT, LEAST_INT, MOST_LONG
cdef int MOST_SHIFT
cdef bint LITTLE

cdef struct avro_step:
    int kind
    Py_ssize_t column, first, count
    long long size, divisor


@cython.final
cdef class AvroSteps:
    cdef bytearray memory
    cdef unsigned char[::1] memory_view
    cdef const unsigned char[::1] constants_view
    cdef avro_step* table
    cdef const unsigned char* constants

    @cython.locals(step="avro_step*")
    cdef set_step(self, Py_ssize_t index, given)


@cython.final
cdef class AvroReader(ColumnReader):
    cdef avro_step* steps
    cdef const unsigned char* constants
    cdef object steps_object
    cdef Py_ssize_t header_size
    cdef long long schema_id
    cdef readonly long long wanted_id

    cdef inline typed_column* column(self, Py_ssize_t index) noexcept nogil
    cdef inline avro_step* step(self, Py_ssize_t index) noexcept nogil
    cpdef select(self, long long schema_id, steps)
    cdef use_steps(self, AvroSteps steps)
    cpdef pass_over(self)
    cpdef go_on(self)
    @cython.locals(place=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, wanted=cython.longlong)
    cdef void run(self) noexcept nogil
    @cython.locals(source="const unsigned char*", wanted=cython.longlong, place=Py_ssize_t)
    cdef long long id_at(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(step="avro_step*", kind=cython.int, branch=cython.longlong, place=Py_ssize_t)
    cdef Py_ssize_t read(self, Py_ssize_t index, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(raw=cython.longlong, wide=cython.ulonglong, part=cython.ulonglong, shift=cython.int, byte=cython.uchar)
    cdef inline (long long, Py_ssize_t) number(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(value=cython.longlong, whole=cython.longlong, column="typed_column*", row=Py_ssize_t, kind=cython.int)
    cdef Py_ssize_t read_whole(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(size=Py_ssize_t, column="typed_column*", value=cython.double)
    cdef Py_ssize_t read_real(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(bits=cython.ulonglong, place=Py_ssize_t, byte=cython.uchar, value=cython.double)
    cdef double double_at(self, const unsigned char* source, Py_ssize_t at) noexcept nogil
    @cython.locals(bits=cython.uint, place=Py_ssize_t, byte=cython.uchar, value=cython.float)
    cdef float float_at(self, const unsigned char* source, Py_ssize_t at) noexcept nogil
    @cython.locals(size=cython.longlong)
    cdef Py_ssize_t read_bytes(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(size=cython.longlong, column="typed_column*")
    cdef Py_ssize_t read_fixed(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(sign=cython.uchar, begin=Py_ssize_t, place=Py_ssize_t, byte=cython.uchar)
    cdef bint put_decimal(self, typed_column* column, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(count=cython.longlong, _=cython.longlong, place=Py_ssize_t)
    cdef Py_ssize_t read_blocks(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil

# C types of avro_reader.py.

cimport cython

cdef int NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP
cdef int NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL
cdef Py_ssize_t HEADER_SIZE, DECIMAL_SIZE, MALFORMED, MOST_COMPARED
cdef long long MOST_INT, LEAST_INT, MOST_LONG
cdef int MOST_SHIFT
cdef bint LITTLE

cdef struct avro_step:
    int kind
    Py_ssize_t column, first, count
    long long size, divisor

cdef struct avro_column:
    int kind
    Py_ssize_t width, first, count
    Py_ssize_t rows, nulls, size
    unsigned char* data
    unsigned char* validity
    int* ints
    long long* longs
    float* floats
    double* doubles
    int* offsets


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
cdef class AvroReader:
    cdef bytearray table
    cdef unsigned char[::1] table_view
    cdef avro_column* columns
    cdef avro_step* steps
    cdef const unsigned char* constants
    cdef const unsigned char* source
    cdef list memory
    cdef object steps_object
    cdef const unsigned char[::1] source_view, validity_view
    cdef const int[::1] offsets_view
    cdef unsigned char[::1] malformed
    cdef Py_ssize_t count, first, header_size
    cdef bint has_nulls, fills
    cdef long long schema_id
    cdef readonly long long wanted_id
    cdef readonly Py_ssize_t rows, row
    cdef readonly bint may_have_key_twice

    cdef inline avro_column* column(self, Py_ssize_t index) noexcept nogil
    cdef inline avro_step* step(self, Py_ssize_t index) noexcept nogil
    @cython.locals(column="avro_column*")
    cpdef begin(self, data, offsets, validity, Py_ssize_t first, Py_ssize_t rows, malformed, bint fills)
    @cython.locals(column="avro_column*")
    cpdef attach(self, Py_ssize_t index, data, offsets, validity)
    @cython.locals(view="unsigned char[::1]")
    cdef set_pointers(self, avro_column* column, data, offsets, validity)
    cpdef release(self)
    @cython.locals(column="avro_column*")
    cpdef sizes(self, Py_ssize_t index)
    cpdef select(self, long long schema_id, steps)
    cdef use_steps(self, AvroSteps steps)
    cpdef pass_over(self)
    cpdef go_on(self)
    @cython.locals(root="avro_column*", place=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, wanted=cython.longlong)
    cdef void run(self) noexcept nogil
    @cython.locals(source="const unsigned char*", wanted=cython.longlong, place=Py_ssize_t)
    cdef long long id_at(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef void note_malformed(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef void put_bad(self, avro_column* column) noexcept nogil
    @cython.locals(row=Py_ssize_t, place=Py_ssize_t)
    cdef void put_null(self, avro_column* column) noexcept nogil
    cdef void blank(self, unsigned char* target, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(step="avro_step*", kind=cython.int, branch=cython.longlong, place=Py_ssize_t)
    cdef Py_ssize_t read(self, Py_ssize_t index, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(raw=cython.longlong, wide=cython.ulonglong, part=cython.ulonglong, shift=cython.int, byte=cython.uchar)
    cdef inline (long long, Py_ssize_t) number(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(value=cython.longlong, whole=cython.longlong, column="avro_column*", row=Py_ssize_t, kind=cython.int)
    cdef Py_ssize_t read_whole(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(size=Py_ssize_t, column="avro_column*", value=cython.double)
    cdef Py_ssize_t read_real(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(bits=cython.ulonglong, place=Py_ssize_t, byte=cython.uchar, value=cython.double)
    cdef double double_at(self, const unsigned char* source, Py_ssize_t at) noexcept nogil
    @cython.locals(bits=cython.uint, place=Py_ssize_t, byte=cython.uchar, value=cython.float)
    cdef float float_at(self, const unsigned char* source, Py_ssize_t at) noexcept nogil
    @cython.locals(size=cython.longlong)
    cdef Py_ssize_t read_bytes(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef void put_text(self, avro_column* column, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    cdef void copy(self, unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef void put_flag(self, avro_column* column, unsigned char flag) noexcept nogil
    @cython.locals(size=cython.longlong, column="avro_column*")
    cdef Py_ssize_t read_fixed(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(sign=cython.uchar, begin=Py_ssize_t, place=Py_ssize_t, byte=cython.uchar)
    cdef bint put_decimal(self, avro_column* column, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(count=cython.longlong, _=cython.longlong, place=Py_ssize_t, column="avro_column*")
    cdef Py_ssize_t read_blocks(self, avro_step* step, const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(one=Py_ssize_t, other=Py_ssize_t)
    cdef void compare_keys(self, avro_column* keys, Py_ssize_t first) noexcept nogil
    @cython.locals(begin=Py_ssize_t, second=Py_ssize_t, size=Py_ssize_t)
    cdef bint are_equal(self, avro_column* column, Py_ssize_t one, Py_ssize_t other) noexcept nogil

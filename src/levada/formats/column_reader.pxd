# C types of column_reader.py.

cimport cython

cdef int NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP
cdef Py_ssize_t MOST_COMPARED

cdef struct typed_column:
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

cdef inline typed_column* column_at(typed_column* columns, Py_ssize_t index) noexcept nogil

cdef class ColumnReader:
    cdef bytearray table
    cdef unsigned char[::1] table_view
    cdef typed_column* columns
    cdef const unsigned char* source
    cdef list memory
    cdef const unsigned char[::1] source_view, validity_view
    cdef const int[::1] offsets_view
    cdef unsigned char[::1] malformed
    cdef Py_ssize_t count, first
    cdef bint has_nulls, fills
    cdef readonly Py_ssize_t rows, row
    cdef readonly bint may_have_key_twice

    @cython.locals(column="typed_column*")
    cpdef begin(self, data, offsets, validity, Py_ssize_t first, Py_ssize_t rows, malformed, bint fills)
    @cython.locals(column="typed_column*")
    cpdef attach(self, Py_ssize_t index, data, offsets, validity)
    @cython.locals(view="unsigned char[::1]")
    cdef set_pointers(self, typed_column* column, data, offsets, validity)
    cpdef release(self)
    @cython.locals(column="typed_column*")
    cpdef sizes(self, Py_ssize_t index)
    @cython.locals(place=Py_ssize_t)
    cdef bint has_value(self) noexcept nogil
    cdef void note_malformed(self) noexcept nogil
    @cython.locals(place=Py_ssize_t)
    cdef void put_bad(self, typed_column* column) noexcept nogil
    @cython.locals(row=Py_ssize_t, place=Py_ssize_t)
    cdef void put_null(self, typed_column* column) noexcept nogil
    cdef void blank(self, unsigned char* target, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef void put_text(self, typed_column* column, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    cdef void copy(self, unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef void put_flag(self, typed_column* column, unsigned char flag) noexcept nogil
    @cython.locals(elements="typed_column*")
    cdef void put_many(self, typed_column* column) noexcept nogil
    @cython.locals(one=Py_ssize_t, other=Py_ssize_t)
    cdef void compare_keys(self, typed_column* keys, Py_ssize_t first) noexcept nogil
    @cython.locals(begin=Py_ssize_t, second=Py_ssize_t, size=Py_ssize_t)
    cdef bint are_equal(self, typed_column* column, Py_ssize_t one, Py_ssize_t other) noexcept nogil

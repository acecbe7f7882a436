# C types of table.py.

cimport cython

cdef int STRING, LONG, INT, DOUBLE, BOOLEAN, TIMESTAMP, SHORT, BYTE, FLOAT, DATE, TIMESTAMP_NTZ, BINARY, DECIMAL, STRUCT, ARRAY
cdef Py_ssize_t HIGH

cdef struct json_column:
    int kind, precision, scale
    Py_ssize_t index, width, first, count, expected
    Py_ssize_t key_at, key_size, name_at, name_size
    Py_ssize_t rows, nulls, size, capacity, room
    unsigned char* data
    unsigned char* validity
    short* shorts
    int* ints
    long long* longs
    float* floats
    double* doubles
    int* offsets

cdef inline json_column* column_at(json_column* columns, Py_ssize_t index) noexcept nogil
cdef void copy(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef void blank(unsigned char* target, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef set_buffers(json_column* column, data, offsets, validity)
@cython.locals(view="unsigned char[::1]")
cdef set_pointers(json_column* column, data, offsets, validity)
@cython.locals(row=Py_ssize_t, place=Py_ssize_t, elements="json_column*")
cdef void put_null(json_column* columns, json_column* column) noexcept nogil
@cython.locals(row=Py_ssize_t, bit=cython.int, place=Py_ssize_t)
cdef void rewind(json_column* columns, json_column* column, Py_ssize_t rows) noexcept nogil

# C types of reader.py.

cimport cython

from levada.record.json.base64 cimport decode_base64
from levada.record.json.numbers cimport read_decimal, read_double, read_long
from levada.record.json.table cimport HIGH, copy, json_column, set_buffers, put_null, rewind
from levada.record.json.text cimport FAULT, MAX_DEPTH, colon_end, number_end, same, scan_string, skip_space, special_number_end, unescape, value_end
from levada.record.json.times cimport read_date, read_time

cdef int STRING, LONG, INT, DOUBLE, BOOLEAN, TIMESTAMP, SHORT, BYTE, FLOAT, DATE, TIMESTAMP_NTZ, BINARY, DECIMAL, STRUCT, ARRAY
cdef Py_ssize_t MISMATCH, STARVED
cdef long long MICROS, MOST_SECONDS
cdef double FLOAT_END, INFINITY, NAN
cdef inline Py_ssize_t past_space(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil


@cython.final
cdef class JsonReader:
    cdef readonly tuple plan
    cdef bytearray table
    cdef unsigned char[::1] table_view
    cdef json_column* columns
    cdef list memory
    cdef const unsigned char[::1] names_view, source_view, validity_view
    cdef unsigned char[::1] scratch_view, stack_view, malformed
    cdef const int[::1] offsets_view
    cdef const unsigned char* names
    cdef const unsigned char* source
    cdef unsigned char* scratch
    cdef unsigned char* stack
    cdef Py_ssize_t scratch_size, first, start
    cdef bint has_nulls, bad
    cdef readonly bint starved_for_text
    cdef readonly Py_ssize_t rows, row, starved, wanted, fault_row, fault_at, fault_column

    cdef hold_names(self, bytes names, Py_ssize_t scratch_size)
    cdef inline json_column* column(self, Py_ssize_t index) noexcept nogil
    @cython.locals(column="json_column*", index=Py_ssize_t)
    cpdef begin(self, data, offsets, validity, Py_ssize_t first, Py_ssize_t rows, malformed)
    @cython.locals(column="json_column*")
    cpdef attach(self, Py_ssize_t index, Py_ssize_t capacity, data, offsets, validity)
    cpdef release(self)
    @cython.locals(column="json_column*")
    cpdef sizes(self, Py_ssize_t index)
    cpdef Py_ssize_t go_on(self) except? -2
    @cython.locals(root="json_column*", place=Py_ssize_t)
    cdef void run(self) noexcept nogil
    cdef bint read_record(self, json_column* root, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef void note(self, Py_ssize_t index, Py_ssize_t at) noexcept nogil
    @cython.locals(row=Py_ssize_t, source="const unsigned char*", index=Py_ssize_t, column="json_column*", byte=cython.uchar)
    cdef Py_ssize_t read_object(self, json_column* parent, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) noexcept nogil
    @cython.locals(place=Py_ssize_t, column="json_column*")
    cdef void end_object(self, json_column* parent) noexcept nogil
    @cython.locals(index=Py_ssize_t, column="json_column*")
    cdef inline (Py_ssize_t, Py_ssize_t) find(self, json_column* parent, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(byte=cython.uchar, stop=Py_ssize_t, escaped=cython.bint, after=Py_ssize_t)
    cdef (Py_ssize_t, Py_ssize_t) find_any(self, json_column* parent, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(place=Py_ssize_t, column="json_column*", _=Py_ssize_t)
    cdef Py_ssize_t named(self, json_column* parent, const unsigned char* text, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.locals(row=Py_ssize_t, stop=Py_ssize_t)
    cdef Py_ssize_t read_value(self, json_column* column, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) noexcept nogil
    @cython.locals(source="const unsigned char*", byte=cython.uchar, kind=cython.int, stop=Py_ssize_t)
    cdef Py_ssize_t read_element(self, json_column* column, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) noexcept nogil
    @cython.locals(source="const unsigned char*", elements="json_column*", byte=cython.uchar)
    cdef Py_ssize_t read_array(self, json_column* column, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) noexcept nogil
    @cython.locals(kind=cython.int, row=Py_ssize_t, stop=Py_ssize_t, value=cython.longlong)
    cdef Py_ssize_t read_whole(self, json_column* column, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(stop=Py_ssize_t, value=cython.double)
    cdef Py_ssize_t read_real(self, json_column* column, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef void put_special(self, json_column* column, unsigned char first) noexcept nogil
    cdef void put_real(self, json_column* column, double value) noexcept nogil
    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t read_boolean(self, json_column* column, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(stop=Py_ssize_t, escaped=cython.bint, good=cython.bint)
    cdef Py_ssize_t read_quoted(self, json_column* column, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t put_text(self, json_column* column, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t after, bint escaped) noexcept nogil
    @cython.locals(kind=cython.int, row=Py_ssize_t, good=cython.bint, time=cython.longlong, day=cython.int, high=cython.ulonglong, low=cython.ulonglong)
    cdef bint put_parsed(self, json_column* column, const unsigned char* text, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    cdef Py_ssize_t starve(self, json_column* column, Py_ssize_t wanted, bint for_text) noexcept nogil

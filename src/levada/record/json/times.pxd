# C types of times.py.

cimport cython

from levada.record.json.text cimport same

cdef long long DAY_SECONDS, MICROS
cdef int MOST_OFFSET, EPOCH_DAY

@cython.locals(days=cython.longlong)
cdef (bint, int) read_date(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(days=cython.longlong, micros=cython.longlong, seconds=cython.longlong, fields=cython.int, fraction=cython.longlong, found=cython.bint, offset=cython.longlong)
cdef (bint, long long) read_time(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop, bint zoned) noexcept nogil
cdef (Py_ssize_t, Py_ssize_t) trim(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(first=Py_ssize_t, value=cython.int)
cdef (Py_ssize_t, int) short_number(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop, int least, int most) noexcept nogil
@cython.locals(year=cython.int, month=cython.int, day=cython.int, whole=cython.bint)
cdef (Py_ssize_t, int) date_part(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
cdef int month_days(int year, int month) noexcept nogil
cdef int days_of(int year, int month, int day) noexcept nogil
@cython.locals(value=cython.int, seconds=cython.int, fields=cython.int)
cdef (Py_ssize_t, int, int) clock_part(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(first=Py_ssize_t, micros=cython.longlong, _=Py_ssize_t)
cdef (Py_ssize_t, long long) fraction_part(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(sign=cython.uchar, first=Py_ssize_t, hours=cython.int, minutes=cython.int, seconds=cython.int)
cdef (bint, int) offset_part(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil

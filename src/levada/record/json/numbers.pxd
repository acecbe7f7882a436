# C types of numbers.py.

cimport cython

from libc.math cimport ldexp

from levada.record.json.text cimport number_end

cdef unsigned long long MOST, LOW_HALF, ALL_BITS, MOST_EXACT
cdef Py_ssize_t MOST_DIGITS, MOST_POWER, MOST_EXPONENT_DIGITS
cdef double POWERS[23]
cdef Py_ssize_t MOST_TEN
cdef unsigned long long TENS[129]
cdef int TWOS[129]

@cython.locals(negative=cython.bint, first=Py_ssize_t, value=cython.ulonglong, digit=cython.ulonglong, whole=cython.longlong)
cdef (Py_ssize_t, long long) read_long(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(stop=Py_ssize_t, start=Py_ssize_t, negative=cython.bint, mantissa=cython.ulonglong, digit=cython.ulonglong, digits=Py_ssize_t, point=Py_ssize_t, byte=cython.uchar, exponent=cython.longlong, value=cython.double)
cdef (Py_ssize_t, double) read_double(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(value=cython.double)
cdef inline double scaled(unsigned long long mantissa, long long exponent) noexcept nogil
@cython.locals(shift=cython.int, high=cython.ulonglong, low=cython.ulonglong, top=cython.int, bits=cython.ulonglong, rest=cython.int, rounded=cython.ulonglong, two=cython.int)
cdef double nearest(unsigned long long mantissa, long long exponent) noexcept nogil
@cython.locals(lows=cython.ulonglong, inner=cython.ulonglong, outer=cython.ulonglong, high=cython.ulonglong)
cdef inline (unsigned long long, unsigned long long) product(unsigned long long left, unsigned long long right) noexcept nogil
@cython.locals(negative=cython.bint, value=cython.longlong)
cdef long long read_exponent(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
cdef double slow_double(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(negative=cython.bint, point=cython.longlong, digits=cython.longlong, tail=Py_ssize_t, keep=cython.longlong, high=cython.ulonglong, low=cython.ulonglong, significant=cython.int, nines=cython.bint, taken=cython.longlong, digit=cython.int)
cdef (bint, unsigned long long, unsigned long long) read_decimal(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop, int precision, int scale) noexcept nogil
@cython.locals(point=cython.longlong, digits=cython.longlong)
cdef (long long, long long, Py_ssize_t) measure_decimal(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(first=Py_ssize_t)
cdef bint is_exponent(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(first=cython.ulonglong, second=cython.ulonglong)
cdef (unsigned long long, unsigned long long) ten_times(unsigned long long high, unsigned long long low, int digit) noexcept nogil

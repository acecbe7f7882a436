# C types of text.py.

cimport cython

cdef extern from *:
    """
    #if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define levada_first_marked(bits) (__builtin_ctzll(bits) >> 3)
    #else
    #define levada_first_marked(bits) 0
    #endif
    """
    int first_marked "levada_first_marked"(unsigned long long bits) noexcept nogil

cdef Py_ssize_t FAULT, MAX_DEPTH, MAX_NUMBER_SIZE

cdef bint same(const unsigned char* source, Py_ssize_t at, Py_ssize_t end, const unsigned char* other, Py_ssize_t start, Py_ssize_t size) noexcept nogil
@cython.locals(byte=cython.uchar)
cdef Py_ssize_t skip_space(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(word=cython.ulonglong, ones=cython.ulonglong, odd=cython.ulonglong)
cdef Py_ssize_t plain_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end, unsigned char quote) noexcept nogil
@cython.locals(quote=cython.uchar, byte=cython.uchar, escaped=cython.bint, size=cython.int)
cdef (Py_ssize_t, bint) scan_string(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=cython.uchar)
cdef int escape_size(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int simple_escape(int byte) noexcept nogil
@cython.locals(code=cython.int, place=cython.int, byte=cython.int, digit=cython.int)
cdef int hex4(const unsigned char* source, Py_ssize_t at) noexcept nogil
@cython.locals(lead=cython.uchar, size=cython.int, second=cython.uchar, least=cython.uchar, most=cython.uchar, place=cython.int)
cdef int utf8_size(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=cython.uchar, code=cython.int, low=cython.int)
cdef Py_ssize_t unescape(const unsigned char* source, Py_ssize_t at, Py_ssize_t stop, unsigned char* target, Py_ssize_t to) noexcept nogil
cdef Py_ssize_t write_utf8(int code, unsigned char* target, Py_ssize_t to) noexcept nogil
cdef Py_ssize_t digits_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(start=Py_ssize_t, first=Py_ssize_t)
cdef Py_ssize_t number_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(first=cython.uchar)
cdef Py_ssize_t literal_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t special_number_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=cython.uchar, _=cython.bint)
cdef Py_ssize_t scalar_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=cython.uchar, _=cython.bint)
cdef Py_ssize_t key_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t colon_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(outside=Py_ssize_t, byte=cython.uchar)
cdef Py_ssize_t value_end(const unsigned char* source, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth, unsigned char* stack) noexcept nogil
@cython.locals(byte=cython.uchar, kind=cython.uchar)
cdef (Py_ssize_t, Py_ssize_t) close(const unsigned char* source, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth, Py_ssize_t outside, unsigned char* stack) noexcept nogil

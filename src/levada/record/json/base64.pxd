# C types of base64.py.

cimport cython

cdef int sextet(int byte) noexcept nogil
@cython.locals(to=Py_ssize_t, size=cython.int, bits=cython.int, place=cython.int)
cdef Py_ssize_t decode_base64(unsigned char* data, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
cdef int group_size(const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) noexcept nogil

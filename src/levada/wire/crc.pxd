# C types of crc.py.

cimport cython

cdef unsigned int POLYNOMIAL, ONE, MASK

@cython.locals(product=cython.uint)
cdef unsigned int multiply(unsigned int a, unsigned int b) noexcept nogil
@cython.locals(result=cython.uint, power=cython.uint, left=Py_ssize_t)
cpdef unsigned int shifted(unsigned int difference, Py_ssize_t following_bytes) noexcept

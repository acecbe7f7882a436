# C types of sticky.py.

cdef class StickyPartition:
    cdef object _random
    cdef readonly long long limit
    cdef public long long produced
    cdef public Py_ssize_t current

    cpdef took(self, long long size, bint full)

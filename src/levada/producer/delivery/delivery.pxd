# C types of delivery.py.

cimport cython


@cython.final
@cython.freelist(128)
cdef class Delivery:
    cdef object _outcome
    cdef readonly long long index, timestamp
    cdef readonly int key_size, value_size

# C types of delivery.py.

cdef class Delivery:
    cdef object _outcome, _timestamp
    cdef Py_ssize_t _index

# C types of growth.py.

cdef extern from "Python.h":
    int resize "PyByteArray_Resize" (object buffer, Py_ssize_t size) except -1

cpdef object grow(bytearray buffer, Py_ssize_t size)

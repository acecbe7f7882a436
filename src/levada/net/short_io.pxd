# C types of short_io.py.

cimport cython

from libc.errno cimport EAGAIN, EINTR, errno

cdef extern from "sys/socket.h":
    ssize_t recv(int descriptor, void* target, size_t size, int flags)
    ssize_t send(int descriptor, const void* source, size_t size, int flags)

@cython.locals(target="unsigned char[::1]", count=Py_ssize_t)
cpdef object receive(int descriptor, object buffer)
@cython.locals(source="const unsigned char[::1]", count=Py_ssize_t)
cpdef Py_ssize_t write(int descriptor, object data) except -1
cdef int failed() except -1

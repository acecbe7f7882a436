# C types of short_io.py.

cimport cython

from libc.errno cimport EAGAIN, EINTR, errno

cdef extern from "sys/socket.h":
    ssize_t recv(int descriptor, void* target, size_t size, int flags)
    ssize_t send(int descriptor, const void* source, size_t size, int flags)

cdef extern from "poll.h":
    ctypedef unsigned long nfds_t
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd* asked, nfds_t count, int timeout_ms)

@cython.locals(target="unsigned char[::1]", count=Py_ssize_t)
cpdef object receive(int descriptor, object buffer)
@cython.locals(source="const unsigned char[::1]", count=Py_ssize_t)
cpdef Py_ssize_t write(int descriptor, object data) except -1
cpdef bint is_ready(int descriptor)
cdef int failed() except -1

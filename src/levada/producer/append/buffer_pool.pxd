# C types of buffer_pool.py.

cdef class BufferPool:
    cdef readonly long long total
    cdef long long _available
    cdef object _waiters, _closed

    cpdef long long spare(self) except -1
    cpdef bint try_allocate(self, long long size) except -1
    cpdef overdraw(self, long long size)
    cpdef release(self, long long size)

# C types of murmur2.py.

cimport cython

cdef unsigned int SEED, M, MASK

@cython.locals(key=bytes, unsigned=cython.longlong)
cpdef long long murmur2(data)
@cython.locals(data=bytes)
cpdef Py_ssize_t partition_for_key(key, Py_ssize_t count) except -1
cpdef partitions_for_keys(data, offsets, validity, Py_ssize_t shift, unsigned int count, int[::1] partitions)
@cython.locals(nullable=cython.bint, row=Py_ssize_t, hashed=cython.uint)
cdef hash_rows(
    const unsigned char[::1] data, const long long[::1] offsets, const unsigned char[::1] validity, Py_ssize_t shift, unsigned int count, int[::1] partitions
)
@cython.locals(state=cython.uint, word=cython.uint, high=cython.uint, at=Py_ssize_t, left=Py_ssize_t)
cdef unsigned int hash_bytes(const unsigned char* source, Py_ssize_t start, Py_ssize_t end) noexcept nogil

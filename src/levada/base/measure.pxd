# C types of measure.py.

cdef long long WINDOW_MS

cdef class Measure:
    cdef readonly long long count
    cdef readonly double total
    cdef long long _began_ms, _count
    cdef double _sum, _most
    cdef object _earlier

    cpdef note(self, double value, long long now_ms)
    cdef _begin(self, long long now_ms)

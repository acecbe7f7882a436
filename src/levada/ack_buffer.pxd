# C types of ack_buffer.py.

cimport cython

cdef unsigned char PENDING, MARKED, FAILED
cdef long long FULL, CHANGED
cdef Py_ssize_t NO_SLOT
cdef long long OUTSIDE, FORKS

cdef class AckWindow:
    cdef readonly long long size
    cdef readonly bint retain, closed
    cdef readonly double blocked_time
    cdef long long _taken, _safe, _next
    cdef object _safe_id, _last_id
    cdef list _ids, _waiting_for_room, _waiting_for_safe
    cdef unsigned char[::1] _states
    cdef double[::1] _put_at_s
    cdef dict _failures
    cdef bint _has_room, _has_moved
    cdef long long _forks

    @cython.locals(sequence=cython.longlong)
    cpdef long long _offer(self, id, double now_s, list taken=*) except -3
    @cython.locals(sequence=cython.longlong, slot=Py_ssize_t)
    cdef long long _append(self, id, last, double now_s, list taken) except -3
    @cython.locals(sequence=cython.longlong)
    cdef long long _offer_again(self, id, last, double now_s, list taken) except -3
    @cython.locals(slot=Py_ssize_t)
    cdef bint _revive(self, long long sequence, double now_s, list taken) except -1
    cpdef _take_back(self, list taken, broken_off)
    @cython.locals(slot=Py_ssize_t)
    cdef _undo_put(self, long long sequence, bint again, broken_off)
    cdef bint _was_put(self, long long sequence) except -1
    cpdef bint mark(self, sequence) except -1
    cpdef bint fail(self, sequence, error) except -1
    cpdef _settle(self, long long sequence, error)
    @cython.locals(slot=Py_ssize_t)
    cdef Py_ssize_t _pending(self, long long sequence) except -2
    @cython.locals(slot=Py_ssize_t)
    cdef bint _mark(self, long long sequence) except -1
    @cython.locals(slot=Py_ssize_t)
    cdef bint _fail(self, long long sequence, error) except -1
    cdef int _set_failed(self, long long sequence, Py_ssize_t slot, error) except -1
    @cython.locals(slot=Py_ssize_t)
    cdef int _advance(self) except -1
    cpdef drain(self)
    cpdef _take(self)
    @cython.locals(slot=Py_ssize_t)
    cdef _free(self)
    cpdef int _wake(self) except -1
    cpdef bint _is_empty(self) except -1
    @cython.locals(failures=dict)
    cdef _first_failure(self)
    cdef int _raise_failure(self) except -1
    cpdef _closed_error(self)
    cdef int _check_process(self) except -1

cdef int _check_order(id) except -1
@cython.locals(number=cython.longlong)
cdef long long _number(sequence) except? -3
cdef int _wake_all(list waiting) except -1

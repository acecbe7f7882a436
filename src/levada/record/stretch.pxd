# C types of stretch.py.

cimport cython

from levada.record.reader cimport RecordSink, RecordWalker

cdef Py_ssize_t AFTER_LENGTH, CRC_FROM, HEADER_SIZE, MIN_RECORD_SIZE
cdef Py_ssize_t LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT, DELTA_AT, TIMESTAMP_AT, MAX_TIMESTAMP_AT, COUNT_AT
cdef long long MOST, UNSIGNED
cdef int CODEC_BITS, CONTROL, LAST_CODEC, LOG_APPEND_TIME, MAGIC
cdef Py_ssize_t MOST_PACKED, MOST_UNPACKED, ENOUGH_UNPACKED, ROOM, SIZE

@cython.locals(raw=cython.ulonglong, top=cython.longlong, byte=cython.ulonglong, place=Py_ssize_t)
cdef inline long long number(const unsigned char* source, Py_ssize_t at, Py_ssize_t size) noexcept nogil

cpdef bint is_small(Py_ssize_t size, Py_ssize_t unpacked_size) noexcept nogil


@cython.final
cdef class Stretch:
    cdef object data, check, max_decompressed
    cdef RecordWalker batches
    cdef readonly RecordWalker walker
    cdef readonly Py_ssize_t begin, end, size_bytes
    cdef readonly long long rows, next_offset, leader_epoch
    cdef readonly int stamped_by_broker
    cdef int codec
    cdef Py_ssize_t unpacked_end
    cdef long long start, stop

    cpdef begin_at(self, Py_ssize_t begin, long long start)
    cpdef forget(self)
    @cython.locals(size=Py_ssize_t)
    cpdef measure(self, long long most_rows, long long most_bytes, long long row_bytes, bytearray room)
    @cython.locals(begin=Py_ssize_t)
    cdef bint unpack(self, Py_ssize_t size, bytearray room) except *
    @cython.locals(source="const unsigned char*", left=Py_ssize_t, length=cython.longlong, base=cython.longlong, delta=cython.longlong, count=cython.longlong)
    cdef Py_ssize_t plain_size(self, Py_ssize_t at) noexcept nogil
    @cython.locals(source="const unsigned char*", attributes=cython.longlong, stamped=cython.int, codec=cython.int)
    cdef bint is_like_the_others(self, Py_ssize_t at, Py_ssize_t length) noexcept nogil
    cdef inline int codec_at(self, Py_ssize_t at) noexcept nogil
    cdef long long count_at(self, Py_ssize_t at) noexcept nogil
    cdef long long crc_at(self, Py_ssize_t at) noexcept nogil
    @cython.locals(source="const unsigned char*", at=Py_ssize_t)
    cdef void take_in(self, Py_ssize_t size, Py_ssize_t unpacked_size) noexcept nogil
    @cython.locals(found=list, at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, kind=object, epoch=object)
    cpdef list consumer_records(self, str topic, object partition)
    @cython.locals(before=Py_ssize_t, reached=Py_ssize_t)
    cpdef bint fill(self, RecordSink sink) except *
    @cython.locals(at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t run(self, RecordSink sink) noexcept nogil
    @cython.locals(records=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t enter_next(self, Py_ssize_t at, Py_ssize_t size, Py_ssize_t place) noexcept nogil
    @cython.locals(source="const unsigned char*", time_at=Py_ssize_t)
    cdef void enter(self, Py_ssize_t at, Py_ssize_t records, Py_ssize_t end) noexcept nogil
    @cython.locals(last=Py_ssize_t, codec=cython.int, place=Py_ssize_t, size=Py_ssize_t, unpacked_size=Py_ssize_t)
    cpdef end_at(self, Py_ssize_t end)

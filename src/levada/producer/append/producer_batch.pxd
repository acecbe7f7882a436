# C types of producer_batch.py.

cimport cython

from levada.ack_buffer cimport AckWindow
from levada.producer.delivery.delivery cimport Delivery
from levada.record.builder cimport RecordBatchBuilder

cdef class ProducerBatch:
    cdef public object queue, waiter, data, promise, last_error, final, error, record_errors, asked, parts
    cdef public RecordBatchBuilder builder
    cdef public list callbacks, acks
    cdef public long long charged, callback_room, created_ms, retry_at_ms, base_offset, log_append_time_ms
    cdef public long long producer_id, producer_epoch, base_sequence, leader_epoch, records_count, records_size, largest_record, attempts
    cdef public double compression_ratio
    cdef public bint sealing, on_the_wire, may_be_persisted

    @cython.locals(acks=list, position=Py_ssize_t, buffer=AckWindow, succeeded=cython.bint)
    cpdef settle_acks(self)

    @cython.locals(callbacks=list, position=Py_ssize_t, delivery=Delivery)
    cpdef run_callbacks(self, log)

    @cython.locals(when=cython.longlong, offset=cython.longlong)
    cpdef metadata(self, long long index, long long timestamp, long long key_size=*, long long value_size=*)

    cpdef error_of(self, long long index)

    cpdef failure_of(self, long long index)

# C types of appender.py.

cimport cython

from levada.ack_buffer cimport AckWindow
from levada.producer.append.buffer_pool cimport BufferPool
from levada.producer.delivery.delivery cimport Delivery
from levada.producer.append.partition_queue cimport Backlog, PartitionQueue, TopicQueues
from levada.producer.append.producer_batch cimport ProducerBatch
from levada.producer.append.sticky cimport StickyPartition
from levada.record.builder cimport RecordBatchBuilder, RowWriter, pack_headers
from levada.wire.murmur2 cimport partition_for_key

cdef extern from *:
    """
    #include <time.h>
    static long long levada_wall_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long wall_ms "levada_wall_ms"() noexcept nogil

cdef extern from *:
    """
    static Py_ssize_t levada_code_address(PyObject *function) {
        return (Py_ssize_t)PyFunction_GET_CODE(function);
    }
    """
    Py_ssize_t code_address "levada_code_address"(object function) noexcept

cdef int FULL, STARVED, BATCH_OVERHEAD, CALLBACK_SIZE, CALLBACKS_AHEAD, FIRST_SIZE, RECORD_OVERHEAD, NO_PARTITION
cdef int FORKS
cdef int UNABLE, OPEN, AGAIN, APPENDED, DUE_LATER, DUE_NOW

@cython.final
cdef class Appender:
    cdef public bint takes_records, plain_keys, plain_values
    cdef public object waiter
    cdef readonly object full
    cdef dict _topics
    cdef BufferPool _pool
    cdef int _forks
    cdef bint _chooses, _ignores_keys, _system_clock, _compresses
    cdef object _lock, _now_ms, _wall_ms, _wake, _codec, _level
    cdef long long _batch_size, _linger_ms
    cdef list _opened, _filled
    cdef Py_ssize_t _code
    cdef dict _codes

    @cython.locals(number=Py_ssize_t, when=cython.longlong)
    cpdef send(self, topic, value, key, partition, timestamp, headers, callback, ack=*)
    @cython.locals(code=Py_ssize_t)
    cpdef bint knows(self, callback) except -1
    cdef Py_ssize_t wall_clock(self) except -1
    @cython.locals(delivery=Delivery, outcome=cython.int, packed=bytes)
    cpdef append(self, topic_name, Py_ssize_t partition, key, value, headers, long long timestamp, callback, ack)
    cdef int locked_append(self, Delivery delivery, topic_name, Py_ssize_t partition, key, value, bytes headers, long long timestamp, callback, ack) except -9
    @cython.locals(topic=TopicQueues, number=Py_ssize_t, is_due=cython.bint, sticky=StickyPartition)
    cdef PartitionQueue find(self, topic_name, Py_ssize_t partition, key)
    cpdef Py_ssize_t partition_for(self, TopicQueues topic, key) except -2
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch, index=Py_ssize_t, told=cython.int)
    cdef int try_append(self, Delivery delivery, topic_name, Py_ssize_t partition, key, value, bytes headers, long long timestamp, callback, ack) except -9
    cdef bint charge_callbacks(self, ProducerBatch batch) except -1
    @cython.locals(builder=RecordBatchBuilder, grown=cython.longlong, more=cython.longlong)
    cdef bint grow(self, ProducerBatch batch) except -1
    cpdef close(self, PartitionQueue queue)
    cdef int due(self, PartitionQueue queue, long long due_ms) noexcept
    @cython.locals(size=Py_ssize_t, queue=PartitionQueue, batch=ProducerBatch)
    cdef int open(self, Delivery delivery, topic_name, Py_ssize_t partition, key, value, bytes headers, long long timestamp, callback, ack) except -9
    @cython.locals(builder=RecordBatchBuilder, batch=ProducerBatch, index=Py_ssize_t, charged=Py_ssize_t)
    cpdef ProducerBatch begin(
        self, PartitionQueue queue, long long allowance, long long now_ms, Delivery delivery, key, value, bytes headers, long long timestamp, callback, ack
    )
    cdef int publish(self, PartitionQueue queue, ProducerBatch batch, bint charge) except -9
    cpdef bint publish_charged(self, PartitionQueue queue, ProducerBatch batch) except -1
    cpdef ProducerBatch open_empty(self, PartitionQueue queue, long long allowance, long long now_ms)
    @cython.locals(
        builder=RecordBatchBuilder, index=Py_ssize_t, is_new=cython.bint, spare=cython.longlong, stop=Py_ssize_t, more=cython.longlong, end=Py_ssize_t
    )
    cpdef (Py_ssize_t, Py_ssize_t) fill(
        self, PartitionQueue queue, ProducerBatch batch, RowWriter writer, const long long[::1] rows, Py_ssize_t first, const long long[::1] sizes
    )
    cpdef list take_opened(self)
    cpdef list take_filled(self)

cpdef Py_ssize_t batch_memory(Py_ssize_t allowance, callback=*, ack=*) except -1
@cython.locals(pair=tuple, buffer=AckWindow)
cpdef bint is_ack(ack) except -1
cdef _note(
    Delivery delivery, ProducerBatch batch, Py_ssize_t index, long long timestamp, bytes key, bytes value, callback, tuple ack
)

# C types of partition_queue.py.

cimport cython

from levada.producer.append.producer_batch cimport ProducerBatch
from levada.producer.append.sticky cimport StickyPartition

cdef class Backlog:
    cdef readonly object node
    cdef readonly dict ready, lingering
    cdef public long long oldest_ms, wakes_at_ms

cdef class PartitionQueue:
    cdef readonly TopicQueues topic
    cdef readonly object tp, batches, sequences
    cdef readonly Py_ssize_t number
    cdef public ProducerBatch tail
    cdef public Backlog backlog
    cdef public object in_flight, place, leader, leader_epoch
    cdef public bint muted

    @cython.locals(tail=ProducerBatch)
    cpdef close_tail(self, bint full)

cdef class TopicQueues:
    cdef object _known, _leaderless
    cdef readonly object name
    cdef public double compression_ratio
    cdef public Py_ssize_t count
    cdef readonly list partitions
    cdef readonly object topic_id
    cdef public bint was_recreated
    cdef readonly StickyPartition sticky

"""Records on their way into batches: partitioning, memory of the BufferPool, and the batches of each partition in the RecordAccumulator.

Begin with `record_accumulator`. `appender` [c] is the fast path of send(), without the lock; `slow_path` waits for metadata and memory.
`partitioning` and `sticky` [c] choose the partition.
"""

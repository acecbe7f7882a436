"""Records on their way into batches: partitioning, memory of the BufferPool, and the batches of each partition in the RecordAccumulator.

Begin with `record_accumulator`. `appender` is the fast path of send(), without the lock; `slow_path` waits for metadata and memory.
`partitioning` and `sticky` choose the partition. Modules with a .pxd file are compiled where there is a C compiler.
"""

"""From records to batches: partitioning, memory from the BufferPool, and the batches of each partition in the RecordAccumulator.

Begin with `record_accumulator`. `appender` is the fast path of send(), without the engine's lock. `slow_path` waits for metadata and
memory. `partitioning` and `sticky` choose the partition. Modules with a .pxd file are compiled if there is a C compiler.
"""

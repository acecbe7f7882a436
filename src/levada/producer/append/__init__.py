"""Records on their way into batches: partitions chosen, memory from the BufferPool, batches per partition in the RecordAccumulator."""

"""Records on their way into batches: partitioning, memory of the BufferPool, and the batches of each partition in the RecordAccumulator."""

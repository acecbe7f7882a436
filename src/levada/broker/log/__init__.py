"""The log of one replica: segments, compaction, validation of batches, leader epochs, producers and transactions."""

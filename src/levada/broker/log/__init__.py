"""The log of one partition: segments and indexes, compaction, what may be appended, producers and transactions in it."""

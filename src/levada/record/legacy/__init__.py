"""Message sets of magic 0 and 1, as brokers before Kafka 0.11 have them.

`message` is one entry, `batch` makes a message set look like a record batch, `conversion` turns the one into the other. `lz4` has the
frames of magic 0, which differ from those of the standard.
"""

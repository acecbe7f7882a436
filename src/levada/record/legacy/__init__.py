"""Message sets of magic 0 and 1, the format of brokers before Kafka 0.11.

`message` reads and writes one message. `batch` presents message sets as record batches. `conversion` converts record batches to message
sets and back. `lz4` has the frames of magic 0, which differ from the lz4 standard.
"""

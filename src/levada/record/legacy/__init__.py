"""Message sets (magic 0 and 1), the record format of brokers before Kafka 0.11.

`message` reads and writes one message. `batch` reads message sets as if they were record batches. `conversion` converts record batches to
message sets and back. `lz4` converts the lz4 frames of magic 0, which differ from the lz4 standard.
"""

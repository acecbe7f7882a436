"""Writes, reads, compresses and checks record batches, as records or as whole Arrow columns.

Begin with `batch`; `memory_records` steps through batches. `builder` writes batches and `reader` reads them; both are compiled where there
is a C compiler. `compression` has the codecs, `columnar/` the Arrow columns, `json/` the JSON in values, and `legacy/` the message sets of
brokers before Kafka 0.11. `levada.producer` and `levada.consumer` decide which batch goes where.
"""

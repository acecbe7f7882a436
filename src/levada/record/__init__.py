"""Record batches: written, read, compressed and checked, as records and as whole Arrow columns.

Begin with `batch`. `builder` [c] writes batches and `reader` [c] reads them, `compression` has the codecs, `columnar/` Arrow, `json/` JSON
in values, `legacy/` the message sets of brokers before Kafka 0.11. Which batch goes where is decided in `levada.producer` and
`levada.consumer`.
"""

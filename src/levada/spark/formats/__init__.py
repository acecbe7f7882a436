"""The formats of keys and values: Kafka's bytes to typed Spark columns, in the task that reads them.

A format is made from options in the driver, travels to the tasks with the reader, and makes a decoder there. `format` says what one has to
offer; every other module is one format, or what several of them share. What becomes of values that are malformed is decided in
`levada.spark.source.values`, for all formats alike.
"""

"""The formats of keys and values. They convert between Kafka's bytes and typed Spark columns, in the tasks.

The driver makes a format from options. The format is pickled with the reader or writer, and makes a decoder or encoder in each task.
`format` is the interface of formats of the source, `sink_format` of formats of the sink. Each other module is one format, or code that
several formats share. `levada.spark.source.values` handles malformed values, for all formats in the same way.
"""

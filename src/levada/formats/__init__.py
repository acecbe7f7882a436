"""The formats of keys and values. They convert between Kafka's bytes and typed Arrow columns.

A format is made from options, pinned to a registry's schema, and pickled with what reads or writes. It makes a decoder or an encoder where
the records are. `reading` is the interface of formats that read, `writing` of those that write. `columns` handles malformed values, for all
formats in the same way. Each other module is one format, or code that several formats share.
"""

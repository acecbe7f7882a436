"""The options that a user may give after `.format("levada")`. Reading them does not need a Spark session.

`keywords` has the names and types. `option_text` parses texts. `options` turns the options into settings of a source or a sink.
"""

"""What a user may write after `.format("levada")`, read without Spark.

`keywords` has the names and types, `option_text` parses text, `options` says what it means.
"""

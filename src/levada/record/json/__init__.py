"""JSON in values, to and from Arrow columns (ADR 17), compiled.

Begin with `plan`, what a schema becomes, and `reader`, which goes through each value once. `text` writes JSON. `numbers`, `times` and
`base64` are what Jackson and Spark take for numbers, timestamps and bytes. Formats of Spark are in `levada.spark.formats`.
"""

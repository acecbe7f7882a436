"""Conversion of record values in JSON to and from Arrow columns (ADR 17). The modules are compiled.

Read `plan` first, which turns a schema into columns, then `reader`, which parses each value in one pass. `text` writes JSON. `numbers`,
`times` and `base64` parse numbers, timestamps and bytes in the forms that Jackson and Spark accept. The formats for Spark are in
`levada.formats`.
"""

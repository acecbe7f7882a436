"""Reads JSON values into the memory of Arrow columns (ADR 17). `levada.record.columnar.json` provides the
memory. `levada.formats.json` writes JSON.

Read `plan` first, the table of columns that is made from a schema, then `reader`, which parses each value in one pass. `table` adds and
removes rows. `text` has JSON's grammar. `numbers`, `times` and `base64` parse numbers, dates, times and bytes in the forms that Jackson and
Spark accept. All modules but `plan` are compiled where there is a C compiler.
"""

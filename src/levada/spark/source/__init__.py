"""The source: batch (`batch`) and streaming (`stream`) queries, what a query reads (`planning`, `trigger`), and
the task that reads it (`range_reader`)."""

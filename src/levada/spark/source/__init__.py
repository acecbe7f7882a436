"""The source: batch (`batch`) and streaming (`stream`) queries, the plan of the offsets to read (`planning`, `trigger`), and the task
that reads them (`range_reader`)."""

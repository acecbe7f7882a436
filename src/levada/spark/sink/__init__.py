"""The sink: rows become records (`writing`), once and only once with `exactly_once`."""

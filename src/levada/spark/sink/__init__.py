"""The sink: turns rows into records (`writing`). `exactly_once` writes each row exactly once."""

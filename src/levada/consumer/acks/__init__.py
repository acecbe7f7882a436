"""Records that a program acknowledges one by one with acks(): which may be processed next, and what may be committed (adr/0044)."""

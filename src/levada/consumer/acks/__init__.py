"""Records that are acknowledged one by one: which may be worked on next, and up to where everything is done (adr/0044)."""

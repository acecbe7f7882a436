"""What every layer uses and no program imports: time, promises, flows, counters, permissions, and words for errors."""

"""What every layer uses and no program imports: clocks, promises, flows, counters, permissions, signals, texts for errors."""

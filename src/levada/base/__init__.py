"""What several layers use and no program imports: clocks, promises, flows, counters, permissions, signals, models, texts for errors."""

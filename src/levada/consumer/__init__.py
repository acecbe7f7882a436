"""The consumer's core: which partitions, from where, fetched ahead and handed out in order; sans-IO and clock-less."""

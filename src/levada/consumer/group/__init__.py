"""A consumer as a member of a group: which partitions are its own, and until when (behaviour section 18)."""

"""A consumer as a member of a group: which partitions are assigned to it, and until when."""

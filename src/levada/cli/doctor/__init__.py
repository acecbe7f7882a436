"""`levada doctor` finds faults of a cluster, and of the connection to it, and advises what to do."""

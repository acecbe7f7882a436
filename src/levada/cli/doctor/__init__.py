"""`levada doctor`: what is wrong with a cluster, or with the way to it, and what to do about it."""

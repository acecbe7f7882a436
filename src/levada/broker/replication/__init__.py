"""Replicas of partitions: what each node holds, who is in sync, and when requests that wait for replicas are answered."""

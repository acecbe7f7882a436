"""Replicas of partitions: their logs, the in-sync replicas, elections, and requests that wait for replication."""

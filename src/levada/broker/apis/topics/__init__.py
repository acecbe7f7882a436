"""APIs about topics, their partitions and replicas."""

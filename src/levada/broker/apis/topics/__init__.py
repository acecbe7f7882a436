"""APIs about topics, their partitions, and where these are."""

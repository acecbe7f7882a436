"""Which partitions are read, and from where: subscriptions, positions, how they are looked up, validated and committed."""

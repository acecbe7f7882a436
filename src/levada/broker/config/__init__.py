"""Kafka's settings of brokers, topics and groups: types, defaults, and which of them have effect."""

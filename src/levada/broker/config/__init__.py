"""How brokers, topics and groups are configured: Kafka's settings with their types, defaults and effects."""

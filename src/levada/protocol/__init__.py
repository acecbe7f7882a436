"""What Kafka says on the wire, for clients and brokers alike."""

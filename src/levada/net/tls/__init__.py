"""TLS over any socket, for clients and brokers. HTTP clients (levada.oauth, levada.registry) use Python's module ssl directly."""

"""TLS over any socket, for clients and brokers. Only this package and the registry's client know the module ssl."""

"""Client telemetry (KIP-714): pushes the client's metrics to brokers that subscribe to them."""

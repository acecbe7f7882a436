"""Client telemetry (KIP-714): pushes metrics to brokers that subscribe to them."""

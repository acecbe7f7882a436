"""What the brokers are told of a client's metrics when they ask for it (KIP-714)."""

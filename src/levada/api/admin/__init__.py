"""What KafkaAdmin does in both APIs, one module per subject: arguments become flows of the engine, and each API only waits (ADR 54)."""

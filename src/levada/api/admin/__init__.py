"""What KafkaAdmin can do, one module per subject: arguments become flows of the engine. The APIs add nothing but the waiting (ADR 54)."""

"""The requests of KafkaAdmin, as flows without I/O and clock, one module per subject."""

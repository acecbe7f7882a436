"""Batches on their way to brokers: the Sender, producer ids and sequence numbers, and the handling of errors."""

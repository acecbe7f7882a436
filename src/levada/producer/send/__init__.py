"""Batches on their way to brokers: the Sender, producer ids and sequences, and what becomes of a batch that fails."""

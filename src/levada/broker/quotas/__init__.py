"""Quotas of clients (KIP-13, KIP-124, KIP-257, KIP-599): their limits, how their use is measured, and how long clients are muted."""

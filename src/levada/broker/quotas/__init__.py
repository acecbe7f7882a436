"""Quotas of clients (KIP-13, KIP-124, KIP-257, KIP-599): who has which, how much was used of them, and for how long that mutes a client."""

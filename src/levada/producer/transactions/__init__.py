"""Transactions of a producer: their states, and what is asked of coordinators."""

"""Transactions: the states of a transactional producer, and what it asks coordinators."""

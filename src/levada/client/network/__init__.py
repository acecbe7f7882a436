"""Requests over connections: which connections there are, what the brokers at their other ends speak, what is in flight."""

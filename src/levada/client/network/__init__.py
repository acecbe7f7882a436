"""Requests over connections: which connections there are, what the brokers at their other ends speak, what is in flight.

Begin with `network_client`. A connection belongs to a node and a purpose (`connection_key`), and stands in `connection_states`.
"""

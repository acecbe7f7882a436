"""Sockets and connections: the server with its thread, listeners, and the session of each connection."""

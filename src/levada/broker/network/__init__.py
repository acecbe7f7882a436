"""Sockets and connections: the server with its thread, listeners, and what is known of who is at the other end."""

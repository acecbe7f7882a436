"""Setting up a connection, from TCP to the first request of a user."""

"""What stands in bytes fields of messages, with versions of its own."""

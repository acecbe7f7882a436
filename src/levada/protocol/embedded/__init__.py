"""The structs in bytes fields of messages. They have versions of their own."""

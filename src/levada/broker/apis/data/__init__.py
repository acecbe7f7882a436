"""APIs that write and read records, and say where logs begin and end."""

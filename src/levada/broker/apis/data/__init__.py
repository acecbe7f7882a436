"""APIs that write and read records, and look up offsets."""

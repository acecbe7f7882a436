"""What a record batch is: written, read, compressed and checked; as records and as whole Arrow columns."""

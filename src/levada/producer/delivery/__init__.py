"""What a program is told of its records: Delivery, the rows of an Arrow call, acknowledgements, failures nobody has looked at."""

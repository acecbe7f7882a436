"""What a program is told of its records: Delivery, the rows of an Arrow call, acknowledgements, and failures that it has not looked at."""

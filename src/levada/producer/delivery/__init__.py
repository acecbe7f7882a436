"""The results of sends: Delivery, the rows of an Arrow call, acknowledgements, and failures that the program has not read."""

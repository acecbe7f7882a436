"""The mechanisms of SASL: what they say and check, without requests, sockets or clocks. Both clients and brokers use them."""

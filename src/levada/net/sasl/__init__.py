"""The SASL mechanisms: their messages and checks, without requests, sockets or clocks. Clients and brokers use the same."""

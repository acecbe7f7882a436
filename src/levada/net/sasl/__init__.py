"""The SASL mechanisms: their messages and checks, without Kafka requests, sockets or clocks. Clients and brokers use the same."""

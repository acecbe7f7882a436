"""Kafka's protocol, for clients and brokers.

`messages/` declares every request and response, with one file per API. `records/` and `embedded/` declare the structs in logs and in bytes
fields. Begin with `schema`, in which messages are declared, and `codegen`, which generates an encoder and a decoder for each version.
"""

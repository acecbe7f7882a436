"""What Kafka says on the wire, for clients and brokers alike.

`messages/` declares every request and response, a file per API; `records/` and `embedded/` what stands in logs and in fields of bytes.
Begin with `schema`, how a message is declared, and `codegen`, which makes an encoder and a decoder of it for each version.
"""

"""Bytes and numbers: what the rest of the wire code is spelled with."""

"""Checksums, hashes and numbers of variable length, which the protocol and the record format use."""

"""Kafka's messages, one file per API, request and response together."""

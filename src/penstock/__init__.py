"""Kafka for Python and Spark."""

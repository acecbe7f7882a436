"""The core of a consumer: assignment, positions, fetching, and records in order. Sans-IO and clock-less."""

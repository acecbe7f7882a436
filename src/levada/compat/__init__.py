"""Modules with the names and the behaviour of other clients of Kafka. A program for one of them runs with only its import changed.

They are layers over levada's public clients, without a client of their own.
"""

"""Batches on their way to brokers: the Sender, producer ids and sequence numbers, and the handling of errors.

Begin with `sender`. `reactions` says what is done about each error code, `failures` what the program is told.
"""

"""Sending batches to brokers: the Sender, producer ids and sequence numbers, and the handling of errors.

Begin with `sender`. `reactions` has the reaction to each error code. `failures` makes the errors for the program.
"""

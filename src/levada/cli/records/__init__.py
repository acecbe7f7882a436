"""Printing and reading of records on the command line."""

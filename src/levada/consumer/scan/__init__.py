"""Bounded reads of topics: from times and offsets to ranges, divided among workers, and read to their ends."""

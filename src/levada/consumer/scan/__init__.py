"""A bounded piece of topics: from times and offsets to ranges, divided among workers, read to their ends."""

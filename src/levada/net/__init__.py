"""One connection, sans-IO; and the Selector, the one place of the library that blocks."""

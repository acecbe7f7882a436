"""The blocking API: clients whose calls wait, and the thread driver under them."""

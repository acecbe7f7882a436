"""The blocking face: clients whose calls wait, and the thread driver under them."""

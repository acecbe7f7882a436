"""What the coordinators of groups and transactions know and decide. No I/O, no clock: the APIs ask, and write what is decided."""

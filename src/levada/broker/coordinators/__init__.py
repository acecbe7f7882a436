"""The coordinators of groups, share groups and transactions: their state, decisions and records, without I/O and clock."""

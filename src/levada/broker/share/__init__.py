"""Share groups (KIP-932): the state of the records that a partition's leader delivers to members one by one."""

"""Share groups (KIP-932): what a partition's leader knows of the records that it gives to members one by one."""

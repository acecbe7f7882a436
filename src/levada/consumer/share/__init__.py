"""Share groups (KIP-932): records are acquired and acknowledged one by one."""

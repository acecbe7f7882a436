"""Share groups (KIP-932): records are acquired one by one, and acknowledged one by one."""

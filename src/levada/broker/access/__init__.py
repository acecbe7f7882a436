"""Who may log in, and who may do what: mechanisms and users, tokens, access rules."""

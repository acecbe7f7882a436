"""Authentication and authorization: SASL mechanisms, users, delegation tokens, ACLs."""

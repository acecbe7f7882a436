"""APIs for logins, and about users, ACLs and delegation tokens."""

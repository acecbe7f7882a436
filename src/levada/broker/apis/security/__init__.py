"""APIs to log in with, and about users, access rules and delegation tokens."""

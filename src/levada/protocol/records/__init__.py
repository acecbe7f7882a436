"""What stands in the log and is no user's: control records, and the records the coordinators keep in their topics."""

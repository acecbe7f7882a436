"""The records in logs that no user has written: control records, and the records that coordinators keep in their topics."""

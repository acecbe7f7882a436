"""The blocking API: clients whose calls wait, and the driver that runs an engine on a thread."""

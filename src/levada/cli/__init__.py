"""The command line `levada`: a user of the public clients, as any program is. Nothing here is imported by the library."""

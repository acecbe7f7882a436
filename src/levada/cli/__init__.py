"""The command line `levada`. It uses the public clients, like any other program. The library imports nothing from here."""

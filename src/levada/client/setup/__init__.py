"""Sets up a connection: ApiVersions and authentication, before the first request of the program."""

"""One module per command, or per group of commands about one noun. Each is loaded when it is called, and has an `app`."""

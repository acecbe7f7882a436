"""One module for each command, or group of commands about one noun. A module is loaded when its command is called. It has an `app`."""

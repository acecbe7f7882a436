"""One node, without sockets, threads or a clock: requests pass the same steps, and are answered at once or deferred."""

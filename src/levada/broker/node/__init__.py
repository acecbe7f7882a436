"""One node, without sockets, threads or a clock: requests come in, go through the same steps, and are answered at once or later."""

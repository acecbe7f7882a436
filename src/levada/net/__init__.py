"""One connection without I/O (Channel), and the Selector, the only place where a client's engine blocks. As in Java's network package.

Begin with `selector` and `channel`. `sasl/` has the mechanisms, `tls/` TLS with its host name verification. Which connections there are is
decided in `levada.client.network`.
"""

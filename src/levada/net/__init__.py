"""One connection without I/O (Channel), and the Selector, the only place in the library that blocks. As in Java's network package."""

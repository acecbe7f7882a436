"""The threads that run users' callbacks, each for its own client: what waits for a callback's end must not be waited for there."""

from __future__ import annotations

CALLBACK_THREADS: set[int] = set()
"""Their idents, as threading.get_ident() gives them."""

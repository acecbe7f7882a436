"""Clients and processes: a client belongs to the one that made it."""

from __future__ import annotations

import os
from typing import Any


class Process:
    """The running process. `id` is renewed in a child made by fork(); asking the system each time takes as long as half of a send()."""

    id = os.getpid()

    @classmethod
    def renew(cls) -> None:
        """Ask the system."""
        cls.id = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Process.renew)


class HoldsConnections:
    """Mixin of the clients: no copy of one could work, in this process or another (M-B19)."""

    def __reduce_ex__(self, _: Any) -> Any:
        kind = type(self).__name__
        raise TypeError(f"a {kind} holds connections and a thread, and cannot be pickled or copied; create one where it is used")

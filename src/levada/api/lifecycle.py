"""What belongs to a client's life: the process that made it, the threads of its callbacks, the objects that are closed with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from levada.logs import Log


class Process:
    """The running process. `id` is set again in a child made by fork(). It is stored because os.getpid() takes half as long as a send()."""

    id = os.getpid()

    @classmethod
    def renew(cls) -> None:
        """Store the process id, by calling os.getpid() again."""
        cls.id = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Process.renew)


class HoldsConnections:
    """A mixin of the clients that prevents pickling and copying, because the copy would have no connections."""

    def __reduce_ex__(self, _: Any) -> Any:
        kind = type(self).__name__
        raise TypeError(f"a {kind} holds connections and a thread, and cannot be pickled or copied; create one where it is used")


CALLBACK_THREADS: set[int] = set()
"""Idents of the threads that run users' callbacks, as threading.get_ident() gives them. Code there must not wait for a callback's end."""


class HandedOver:
    """The serializers, partitioner or interceptors that the program gave to a client.

    Those that have a close() are closed with the client.
    """

    def __init__(self, objects: Iterable[Any], log: Log) -> None:
        self._log = log
        by_identity = {id(item): item for item in objects}
        self._closes: list[Callable[[], object]] = [item.close for item in by_identity.values() if callable(getattr(item, "close", None))]

    def close(self) -> None:
        """Call close() of each, after the last use. An exception is logged, and the client is closed nevertheless."""
        closes, self._closes = self._closes, []
        for close in closes:
            try:
                close()
            except Exception as raised:
                self._log.error("%r failed to close", getattr(close, "__self__", close), error=raised)

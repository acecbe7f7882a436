"""Locks and events that work in a child made by fork(). A thread of the parent may have held one, and is not in the child."""

from __future__ import annotations

import os
from threading import Event, Lock
from typing import Any
from weakref import WeakSet

_made: WeakSet[Any] = WeakSet()


def lock_for_forks() -> Lock:
    """Return a lock that is not held in a child."""
    made = Lock()
    _made.add(made)
    return made


def event_for_forks() -> Event:
    """Return an event that can be waited for in a child. It stays set if it is set."""
    made = Event()
    _made.add(made)
    return made


def _renew() -> None:
    for one in list(_made):
        one._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

"""The engine's time.

The engine is handed the time with every call and keeps it here before anybody else runs, so that no component has to remember when it was
last polled. It stands still while nothing happens: who needs the time between two steps asks a clock.
"""

from __future__ import annotations


class Now:
    """ms: monotonic milliseconds of the engine's last step."""

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = 0

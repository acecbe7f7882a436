"""A Selector that a test drives step by step, with the events that it has reported."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from levada.net.selectable import Disconnect, NetEvents
from settings_kit import new_selector

PATIENCE_S = 5


class Clocked:
    """A selector with the events it has given so far."""

    def __init__(self, **settings: object) -> None:
        self.selector = new_selector(max_frame_bytes=1 << 20, **settings)
        self.now_ms = 0
        self.connected: list[int] = []
        self.sent: list[int] = []
        self.received: list[bytes] = []
        self.disconnected: dict[int, Disconnect] = {}

    def step(self, timeout_ms: int = 100) -> NetEvents:
        events = self.selector.process(self.selector.select(timeout_ms), self.now_ms)
        self.connected += events.connected
        self.sent += events.sent
        self.received += [bytes(frame) for _, frame in events.received]
        self.disconnected |= events.disconnected
        return events

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come"
            self.step()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body

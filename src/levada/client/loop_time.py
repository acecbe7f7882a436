"""How a driver spends its time: waiting for the network, and working on what came, in nanoseconds. A simulation does not count it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levada.base.measure import Measure
from levada.metrics import Reading, gauge

_NS_PER_S = 1_000_000_000


class LoopTime:
    """waits: from each look at the sockets to its end. work: what was done after each of them, under the engine's lock."""

    def __init__(self) -> None:
        self.waits = Measure()
        self.work = Measure()

    def turned(self, waited_ns: int, worked_ns: int, now_ms: int) -> None:
        """A driver has waited, and worked."""
        self.waits.note(waited_ns, now_ms)
        self.work.note(worked_ns, now_ms)


LOOP_READINGS: Sequence[Reading[Any]] = (
    *gauge("select-rate", "Waits for the network, per second", lambda loop, now_ms: loop.waits.frequency(now_ms)),
    *gauge("select-total", "Waits for the network, in all", lambda loop, _: loop.waits.count),
    *gauge("io-wait-time-ns-avg", "Nanoseconds of such a wait, on average", lambda loop, now_ms: loop.waits.average(now_ms)),
    *gauge("io-wait-time-ns-total", "Nanoseconds of all of them", lambda loop, _: loop.waits.total),
    *gauge("io-wait-ratio", "Share of the time that was spent in them", lambda loop, now_ms: loop.waits.rate(now_ms) / _NS_PER_S),
    *gauge("io-time-ns-avg", "Nanoseconds of work after a wait, on average", lambda loop, now_ms: loop.work.average(now_ms)),
    *gauge("io-time-ns-total", "Nanoseconds of all that work", lambda loop, _: loop.work.total),
    *gauge("io-ratio", "Share of the time that was spent in it", lambda loop, now_ms: loop.work.rate(now_ms) / _NS_PER_S),
)

"""Loops over a consumer of either API: `for record in consumer`, and `async for`.

A loop polls, and yields the records of each poll one by one. When it is left, the records that it was not given are taken back. It ends by
itself when all partitions are read to their ends (those given to assign(), or with stop.at.end those at its beginning), and when no record
came for consumer.timeout.ms. With stop.at.end, partitions without an end get one for as long as the loop runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levada.api.consumer.consuming import Consuming
from levada.api.consumer.iterations import POLL_MS, Iteration
from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow
from levada.consumer.scan.stop_at_end import beyond, bound, unbound_beyond
from levada.types import ConsumerRecords, OffsetSpec


class Loop:
    """A loop over a consumer. is_over: whether the loop has ended because of consumer.timeout.ms or stop.at.end.

    read: polls, with a timeout in seconds; None for poll_in_loop().
    """

    def __init__(self, consuming: Consuming, read: Callable[[float], CallerFlow[ConsumerRecords[Any, Any]]] | None = None) -> None:
        self.is_over = False
        self._consuming = consuming
        self._read = read or consuming.poll_in_loop
        self._stops_at_end = consuming.config.stop_at_end
        self._patience_ms = consuming.config.consumer_timeout_ms
        self._idle_until_ms: int | None = None
        """When the loop ends unless a record comes before; None right after a record."""

    def poll(self, now_ms: int) -> CallerFlow[Iteration]:
        """Poll at most once, so that the poll can be undone with take_back(); return the next records, possibly none."""
        return self._consuming.iterate((yield from self.read(now_ms)))

    def read(self, now_ms: int) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Poll once, check whether the loop is over, and return the records. With stop.at.end, first look up the ends of new partitions."""
        consuming = self._consuming
        consuming.enter_loop(self)
        if self._stops_at_end:
            yield from self._bound()
        if self._idle_until_ms is None:
            self._idle_until_ms = NEVER_MS if self._patience_ms < 0 else now_ms + self._patience_ms
        wait_ms = min(max(self._idle_until_ms - now_ms, 0), POLL_MS)
        records = yield from self._read(wait_ms / 1000)
        if records:
            self._idle_until_ms = None
        elif consuming.now_ms() >= self._idle_until_ms:
            self.is_over = True
        elif consuming.is_finished:
            self.is_over = not (yield from self._is_beyond())
        return records

    def leave(self) -> None:
        """Remove the end offsets that the loop has set for partitions (stop.at.end). Has no effect if another loop has begun since."""
        self._consuming.leave_loop(self)

    def _bound(self) -> CallerFlow[None]:
        """Set the current log end as end offset of each partition that has no end offset yet."""
        reading = self._consuming.reading
        unbounded = reading.look(lambda core: [state.tp for state in core.subscription if state.stop_offset is None])
        if unbounded:
            ends = yield from self._consuming.ends(unbounded, OffsetSpec.LATEST, None)
            reading.change(lambda core, _: bound(core.subscription, ends))

    def _is_beyond(self) -> CallerFlow[bool]:
        """Return whether a position is after the end of its log, for example a committed position after the topic was created anew."""
        reading = self._consuming.reading
        found = reading.look(lambda core: beyond(core.subscription))
        if not found:
            return False
        ends = yield from self._consuming.ends(found, OffsetSpec.LATEST, None)
        return reading.look(lambda core: unbound_beyond(core.subscription, ends))

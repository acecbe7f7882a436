"""When a member of a group has to be heard of (behaviour G14, G33, G38). Pure.

Two clocks run. The coordinator wants a heartbeat every heartbeat.interval.ms, in a consumer group as often as it says; a failed one is
repeated after retry.backoff.ms, and after pauses that grow to retry.backoff.max.ms while they go on failing (KIP-580). And the program has
to ask for records every max.poll.interval.ms, or the member is of no use to its group; that clock stands still within such a call.
"""

from __future__ import annotations

from levada.base.clock import NEVER_MS, ExponentialBackoff


class Heartbeats:
    """See the module's theory."""

    def __init__(self, *, interval_ms: int, backoff: ExponentialBackoff, max_poll_interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._backoff = backoff
        self._max_poll_interval_ms = max_poll_interval_ms
        self.failures = 0
        """How many heartbeats in a row have failed."""
        self.due_ms = NEVER_MS
        """When the next heartbeat is due, NEVER_MS while none is wanted."""
        self._asked_ms = 0
        self.within = False
        """Whether the program is within a call for records."""

    def begin(self, now_ms: int) -> None:
        """The member has joined."""
        self.due_ms = now_ms + self._interval_ms

    def begin_at_once(self, now_ms: int, *, after_pause: bool = False) -> None:
        """The coordinator is to hear of the member now, or after the pause of a failed heartbeat."""
        self.due_ms = now_ms + self._backoff.delay_ms(0) if after_pause else now_ms

    def every(self, interval_ms: int) -> None:
        """The coordinator wants to be told so often from now on (KIP-848). One that names no time is not told without a pause."""
        self._interval_ms = interval_ms if interval_ms > 0 else self._backoff.delay_ms(0)

    def end(self) -> None:
        """There is no member to be heard of."""
        self.due_ms = NEVER_MS
        self.failures = 0

    def sent(self) -> None:
        """A heartbeat is on its way."""
        self.due_ms = NEVER_MS

    def answered(self, sent_ms: int, now_ms: int, *, ok: bool) -> None:
        """It was answered, or not."""
        if ok:
            self.failures = 0
            self.due_ms = sent_ms + self._interval_ms
        else:
            self.due_ms = now_ms + self._backoff.delay_ms(self.failures)
            self.failures += 1

    def entered(self, now_ms: int) -> None:
        """The program is within a call for records."""
        self._asked_ms = now_ms
        self.within = True

    def returned(self, now_ms: int) -> None:
        """The program works on what it got."""
        self._asked_ms = now_ms
        self.within = False

    @property
    def missed_ms(self) -> int:
        """When the program has not asked for records for too long."""
        return NEVER_MS if self.within else self._asked_ms + self._max_poll_interval_ms

"""When a member of a group has to send a heartbeat, and when it has to leave (Heartbeat in Java). Pure.

There are two timers. A heartbeat is due every heartbeat.interval.ms; in a consumer group the coordinator sets the interval. A failed one is
repeated after retry.backoff.ms, and after pauses that grow to retry.backoff.max.ms while heartbeats keep failing (KIP-580). A member of a
consumer or share group repeats it at once if the first failure is that the coordinator has moved. And the program has to call poll() every
max.poll.interval.ms; this timer stands still during a poll().
"""

from __future__ import annotations

from levada.base.clock import NEVER_MS, ExponentialBackoff


class Heartbeats:
    """The timers of one group member: for heartbeats, and for max.poll.interval.ms."""

    def __init__(self, *, interval_ms: int, backoff: ExponentialBackoff, max_poll_interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._backoff = backoff
        self._max_poll_interval_ms = max_poll_interval_ms
        self.failures = 0
        """How many heartbeats in a row have failed."""
        self.due_ms = NEVER_MS
        """When the next heartbeat is due; NEVER_MS if none is."""
        self._asked_ms = 0
        self.within = False
        """Whether a poll() is running."""

    def begin(self, now_ms: int) -> None:
        """Start the heartbeat timer, because the member has joined."""
        self.due_ms = now_ms + self._interval_ms

    def begin_at_once(self, now_ms: int, *, after_pause: bool = False) -> None:
        """Make a heartbeat due now. after_pause: whether to make it due after the first retry backoff instead."""
        self.due_ms = now_ms + self._backoff.delay_ms(0) if after_pause else now_ms

    def every(self, interval_ms: int) -> None:
        """Set the heartbeat interval that the coordinator has named (KIP-848). Instead of 0, the first retry backoff is used."""
        self._interval_ms = interval_ms if interval_ms > 0 else self._backoff.delay_ms(0)

    def end(self) -> None:
        """Stop the heartbeat timer, because the consumer is no longer a member."""
        self.due_ms = NEVER_MS
        self.failures = 0

    def sent(self) -> None:
        """Note that a heartbeat is in flight, so that no other one is due."""
        self.due_ms = NEVER_MS

    def answered(self, sent_ms: int, now_ms: int, *, ok: bool) -> None:
        """Set the time of the next heartbeat. sent_ms: when the last one was sent. ok: whether the answer shows that the session goes on;
        if not, the next heartbeat is due after a retry backoff.
        """
        if ok:
            self.failures = 0
            self.due_ms = sent_ms + self._interval_ms
        else:
            self.due_ms = now_ms + self._backoff.delay_ms(self.failures)
            self.failures += 1

    def entered(self, now_ms: int) -> None:
        """Note that the program has called poll(): the timer of max.poll.interval.ms stops."""
        self._asked_ms = now_ms
        self.within = True

    def returned(self, now_ms: int) -> None:
        """Note that poll() has returned: the timer of max.poll.interval.ms starts."""
        self._asked_ms = now_ms
        self.within = False

    @property
    def missed_ms(self) -> int:
        """The time, in ms, at which max.poll.interval.ms is exceeded unless poll() is called."""
        return NEVER_MS if self.within else self._asked_ms + self._max_poll_interval_ms

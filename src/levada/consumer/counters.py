"""What consumers, members of groups and share consumers count: per response and per call, never per record."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from levada.base.measure import Measure


class PollTimes:
    """The times at which poll() began and ended (KIP-517)."""

    def __init__(self) -> None:
        self.between = Measure()
        """Milliseconds from the beginning of one poll() to the beginning of the next."""
        self.idle = Measure()
        """How much of the time was spent in poll(), from 0 to 1. As in Java, it is the duration of a poll(), divided by the sum of that
        duration and the time from the beginning of the previous poll() to the beginning of this one.
        """
        self.began_ms: int | None = None
        """When the last poll() began; None before the first."""
        self._since_ms = 0

    def begin(self, now_ms: int) -> None:
        """Note that a poll() begins."""
        if self.began_ms is not None:
            self._since_ms = now_ms - self.began_ms
            self.between.note(self._since_ms, now_ms)
        self.began_ms = now_ms

    def end(self, now_ms: int) -> None:
        """Note that a poll() ends."""
        took_ms = now_ms - (self.began_ms or now_ms)
        if took_ms + self._since_ms:
            self.idle.note(took_ms / (took_ms + self._since_ms), now_ms)


class ReadCounters:
    """Counters of reading. fetched: bytes of records per fetch response. records: records returned per call."""

    def __init__(self) -> None:
        self.fetched = Measure()
        self.records = Measure()


class ConsumerCounters(ReadCounters):
    """The counters of one consumer: totals, and those of each assigned topic. throttle_time, commit_sync: milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, ReadCounters] = {}
        self.throttle_time = Measure()
        self.polls = PollTimes()
        self.commit_sync = Measure()
        self.committed = Measure()
        """Milliseconds of committed()."""

    def has_fetched(self, sizes: Mapping[str, int], now_ms: int) -> None:
        """Count a fetch response. sizes: bytes of records by topic."""
        self.fetched.note(sum(sizes.values()), now_ms)
        for topic, size in sizes.items():
            self._topic(topic).fetched.note(size, now_ms)

    def hands_out(self, counts: Mapping[str, int], now_ms: int) -> None:
        """Count the records that a call returns. counts: the number of records of each topic."""
        if counts:
            self.records.note(sum(counts.values()), now_ms)
        for topic, count in counts.items():
            self._topic(topic).records.note(count, now_ms)

    def keep(self, topics: Collection[str]) -> None:
        """Set the assigned topics; counters of others are dropped."""
        for topic in self.topics.keys() - set(topics):
            del self.topics[topic]

    def _topic(self, topic: str) -> ReadCounters:
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = ReadCounters()
        return counters


class GroupCounters:
    """Counters of a group member. rebalances: milliseconds until the member had its assignment.

    They begin in a classic group with the first JoinGroup, in a consumer group with a new target assignment, and in a share group when the
    member joins, later with a new target assignment. failed: how often a rebalance of a classic group failed. heard_ms: when the
    coordinator last answered a heartbeat (in a share group: without an error); None before that. rebalanced_ms: when the last rebalance
    succeeded; None before that.
    """

    def __init__(self) -> None:
        self.rebalances = Measure()
        self.failed = Measure()
        self.heard_ms: int | None = None
        self.rebalanced_ms: int | None = None

    def rebalanced(self, began_ms: int, now_ms: int) -> None:
        """Count a successful rebalance."""
        self.rebalances.note(now_ms - began_ms, now_ms)
        self.rebalanced_ms = now_ms


class ShareCounters:
    """Counters of a share consumer. fetched: bytes of records per response. records: records returned per call.

    sent: the number of acknowledged offsets in requests, gaps included. refused: the number of records whose acknowledgement was not
    accepted. throttle_time: milliseconds.
    """

    def __init__(self) -> None:
        self.fetched = Measure()
        self.records = Measure()
        self.sent = Measure()
        self.refused = Measure()
        self.throttle_time = Measure()
        self.polls = PollTimes()

"""What a share consumer counts: per request and per call, never per record."""

from __future__ import annotations

from levada.base.measure import Measure
from levada.consumer.counters import PollTimes


class ShareCounters:
    """Values: bytes of records in an answer, records handed out by a call, acknowledgements sent and refused, ms of throttling."""

    def __init__(self) -> None:
        self.fetched = Measure()
        self.records = Measure()
        self.sent = Measure()
        self.refused = Measure()
        self.throttle_time = Measure()
        self.polls = PollTimes()

"""What a consumer counts: per response and per call, never per record."""

from __future__ import annotations

from levada.measure import Measure


class ConsumerCounters:
    """Values: bytes of records in a response, records handed out by a call, milliseconds of throttling."""

    def __init__(self) -> None:
        self.fetched = Measure()
        self.records = Measure()
        self.throttle_time = Measure()

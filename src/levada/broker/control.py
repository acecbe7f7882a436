"""Faults on request, for tests of clients: errors, lost answers, delays, throttling, disconnects, small pieces, older versions (E12).

A fault waits for the next request of its API and is used up by it. Faults of one API are used up in the order they were asked for, one
per request; the rest of the broker is not involved.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to happen to one request, or, with `partition`, to one partition of it. cut_at: how much of the answer is sent, in bytes."""

    error_code: ErrorCode = ErrorCode.NONE
    applied: bool = False
    drop: bool = False
    disconnect: bool = False
    delay_ms: int = 0
    throttle_ms: int = 0
    cut_at: int | None = None
    partition: TopicPartition | None = None


NO_FAULT = Fault(applied=True)


class Faults:
    """The faults a test has asked for, by API name ("Produce"). Safe to call while the broker runs in another thread.

    requests: how many requests of each API came in so far. bytes_at_a_time: the server reads and writes at most so many at once; None for
    as many as there are.
    """

    def __init__(self, known_apis: frozenset[str]) -> None:
        self._known = known_apis
        self._waiting: dict[str, deque[Fault]] = {}
        self._partition_faults: dict[str, deque[Fault]] = {}
        self._caps: dict[str, int] = {}
        self.requests: Counter[str] = Counter()
        self.bytes_at_a_time: int | None = None

    def fail_next(
        self,
        api: str,
        error_code: ErrorCode,
        times: int = 1,
        *,
        topic: str | None = None,
        partition: int = 0,
        applied: bool = False,
    ) -> None:
        """Answer the next `times` requests with an error, in all their partitions or only in one.

        applied: do what was asked and answer with the error all the same, as when an acknowledgement is lost inside the cluster.
        """
        if topic is None:
            self._add(api, [Fault(error_code=error_code, applied=applied)] * times)
            return
        fault = Fault(error_code=error_code, partition=TopicPartition(topic, partition))
        self._check(api)
        self._partition_faults.setdefault(api, deque()).extend([fault] * times)

    def drop_response(self, api: str, nth: int = 1) -> None:
        """Apply the nth next request and never answer it. The connection stays open, silent and busy, so its client has to time out."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, drop=True)])

    def disconnect(self, api: str, nth: int = 1, *, applied: bool = False) -> None:
        """Close the connection instead of answering the nth next request. applied: do what was asked first."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=applied, disconnect=True)])

    def delay(self, api: str, ms: int, times: int = 1) -> None:
        """Hold back the answers to the next `times` requests for `ms` milliseconds."""
        self._add(api, [Fault(applied=True, delay_ms=ms)] * times)

    def close_mid_frame(self, api: str, nth: int = 1, *, after_bytes: int = 10) -> None:
        """Apply the nth next request, send the first bytes of its answer (size included) and close the connection."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, cut_at=after_bytes)])

    def throttle(self, api: str, ms: int, times: int = 1) -> None:
        """Say in the next `times` answers that the client is over its quota, and leave its connection unread for so long (KIP-219).

        Responses without a field for the throttle time are not throttled.
        """
        self._add(api, [Fault(applied=True, throttle_ms=ms)] * times)

    def cap_version(self, api: str, max_version: int) -> None:
        """Serve the API only up to this version from now on, as an older broker would; -1 takes the API away."""
        self._check(api)
        self._caps[api] = max_version

    def clear(self) -> None:
        """Forget all faults and version caps that wait, and take whole frames again."""
        self.bytes_at_a_time = None
        self._waiting.clear()
        self._partition_faults.clear()
        self._caps.clear()

    def max_version(self, api: str, served: int) -> int:
        """Return the highest version to serve."""
        return min(served, self._caps.get(api, served))

    def next_fault(self, api: str) -> Fault:
        """Return and use up what is to happen to this request."""
        self.requests[api] += 1
        waiting = self._waiting.get(api)
        return waiting.popleft() if waiting else NO_FAULT

    def partition_error(self, api: str, partition: TopicPartition) -> ErrorCode:
        """Return and use up the error this partition is to answer with, NONE for no fault."""
        faults = self._partition_faults.get(api)
        for fault in list(faults or ()):
            if faults is not None and fault.partition == partition:
                faults.remove(fault)
                return fault.error_code
        return ErrorCode.NONE

    def _add(self, api: str, faults: list[Fault]) -> None:
        self._check(api)
        self._waiting.setdefault(api, deque()).extend(faults)

    def _check(self, api: str) -> None:
        if api not in self._known:
            raise ConfigError(f"the broker serves no API '{api}'; it serves {', '.join(sorted(self._known))}")

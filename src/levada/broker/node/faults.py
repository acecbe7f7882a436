"""Faults on request, for tests of clients: errors; lost, delayed and held responses; throttling, disconnects, older versions.

A fault waits for the next request of its API and is used up by it. Faults of one API are used up in the order of their requests, one per
request of the client. The rest of the broker works normally. A blackhole lasts until clear(). All nodes of a cluster share their faults.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from levada.base.text import did_you_mean
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.types import TopicPartition

Act = Callable[[int], None]
"""A function that a node calls at a time, with that time."""


class Hold:
    """Responses that are held until release(). release() may be called while the broker runs in another thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._kept: list[tuple[int, Act]] = []
        self.is_released = False

    @property
    def waiting(self) -> int:
        """How many responses are held now."""
        return len(self._kept)

    def release(self) -> None:
        """Release the held responses, and hold no others from now on."""
        self.is_released = True
        self._wake()

    def keep(self, node_id: int, act: Act) -> None:
        """Hold a response: the node calls `act` after release(), which sends it. Only the node uses this method."""
        self._kept.append((node_id, act))

    def take(self, node_id: int) -> list[Act]:
        """Remove and return the functions that a node has to call now; none before release(). Only the node uses this method."""
        taken = [act for node, act in self._kept if node == node_id and self.is_released]
        self._kept = [entry for entry in self._kept if entry[0] != node_id or not self.is_released]
        return taken


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of one request, or, with `partition`, of one partition in it. cut_at: how many bytes of the response are sent."""

    error_code: ErrorCode = ErrorCode.NONE
    applied: bool = False
    drop: bool = False
    disconnect: bool = False
    delay_ms: int = 0
    throttle_ms: int = 0
    cut_at: int | None = None
    hold: Hold | None = None
    partition: TopicPartition | None = None


NO_FAULT = Fault(applied=True)
SWALLOWED = Fault(drop=True)


class RequestCounts(Mapping[str, int]):
    """The number of requests by API name. Raises ConfigError for an API that the broker does not serve, whose number could only be 0."""

    def __init__(self, apis: Iterable[str]) -> None:
        self._counts = dict.fromkeys(sorted(apis), 0)

    def __getitem__(self, api: str) -> int:
        self.check(api)
        return self._counts[api]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return repr({api: count for api, count in self._counts.items() if count})

    def check(self, api: str) -> None:
        """Raise ConfigError for an API that is not served."""
        if api not in self._counts:
            hint = did_you_mean(api, self._counts) if isinstance(api, str) else ""
            raise ConfigError(f"the broker serves no API {api!r}{hint or '; it serves ' + ', '.join(self._counts)}")

    def add(self, api: str) -> None:
        """Count a request. Only the node uses this method."""
        self._counts[api] += 1


class Faults:
    """The faults that a test has requested, by API name ("Produce"). It may be used while the broker runs in another thread.

    known_apis: the APIs that the broker serves. by_partition: the APIs in which a single partition can fail.

    requests: the number of requests so far, by API name. bytes_at_a_time: how many bytes the server reads and writes at most at once; None
    for no limit.
    """

    def __init__(self, known_apis: frozenset[str], by_partition: frozenset[str]) -> None:
        self._by_partition = by_partition
        self._waiting: dict[str, deque[Fault]] = {}
        self._partition_faults: dict[str, deque[Fault]] = {}
        self._caps: dict[str, int] = {}
        self._blackholes: set[tuple[str | None, int | None]] = set()
        self._holds: list[Hold] = []
        self._wakeups: list[Callable[[], None]] = []
        self.requests = RequestCounts(known_apis)
        self.bytes_at_a_time: int | None = None

    def fail_next(
        self,
        api: str,
        error_code: ErrorCode | str | int,
        times: int = 1,
        *,
        topic: str | None = None,
        partition: int = 0,
        applied: bool = False,
    ) -> None:
        """Answer the next `times` requests with an error, in all partitions or only in one. They are not carried out.

        error_code: a levada.error_codes.ErrorCode, its name ("NOT_COORDINATOR") or its number (16). applied: carry the request out all the
        same, as when an acknowledgement is lost inside the cluster; not for a single partition. Raises ValueError for a code that Kafka
        does not have, ConfigError for an API that cannot fail like this.
        """
        code = ErrorCode.named(error_code)
        if topic is None:
            self._add(api, [Fault(error_code=code, applied=applied)] * times)
            return
        fault = Fault(error_code=code, partition=TopicPartition(topic, partition))
        self.requests.check(api)
        if applied or api not in self._by_partition:
            what = "be carried out and fail" if applied else "fail"
            raise ConfigError(f"one partition of {api} cannot {what}; leave out topic= to let the whole request do so")
        self._partition_faults.setdefault(api, deque()).extend([fault] * times)

    def drop_response(self, api: str, nth: int = 1) -> None:
        """Carry out the nth next request and never answer it. The connection stays open and muted, so its client has to time out."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, drop=True)])

    def disconnect(self, api: str, nth: int = 1, *, applied: bool = False) -> None:
        """Close the connection instead of answering the nth next request. applied: carry the request out first."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=applied, disconnect=True)])

    def delay(self, api: str, ms: int, times: int = 1) -> None:
        """Delay the responses to the next `times` requests by `ms` milliseconds."""
        self._add(api, [Fault(applied=True, delay_ms=ms)] * times)

    def hold(self, api: str, times: int = 1) -> Hold:
        """Carry out the next `times` requests and hold their responses until release() of the returned Hold.

        Holding WriteTxnMarkers keeps transactions in PrepareCommit or PrepareAbort.
        """
        hold = Hold(self._wake)
        self._holds.append(hold)
        self._add(api, [Fault(applied=True, hold=hold)] * times)
        return hold

    def blackhole(self, api: str | None = None, *, node: int | None = None) -> None:
        """From now on ignore requests, until clear(). api: None for every API. node: None for every node."""
        if api is not None:
            self.requests.check(api)
        self._blackholes.add((api, node))

    def close_mid_frame(self, api: str, nth: int = 1, *, after_bytes: int = 10) -> None:
        """Carry out the nth next request, send the first bytes of its response (size included) and close the connection."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, cut_at=after_bytes)])

    def throttle(self, api: str, ms: int, times: int = 1) -> None:
        """Report in the next `times` responses that the client exceeds its quota, and do not read its connection for `ms` (KIP-219).

        Responses without a field for the throttle time are not throttled.
        """
        self._add(api, [Fault(applied=True, throttle_ms=ms)] * times)

    def cap_version(self, api: str, max_version: int) -> None:
        """From now on serve the API only up to this version, as an older broker would; -1 removes the API."""
        self.requests.check(api)
        self._caps[api] = max_version

    def clear(self) -> None:
        """Remove all pending faults, version caps, blackholes and limits of bytes_at_a_time. Held responses stay held."""
        self.bytes_at_a_time = None
        self._waiting.clear()
        self._partition_faults.clear()
        self._caps.clear()
        self._blackholes.clear()

    def release_all(self) -> None:
        """Release everything that is held."""
        for hold in self._holds:
            hold.release()
        self._holds = [hold for hold in self._holds if hold.waiting]

    def max_version(self, api: str, served: int) -> int:
        """Return the highest version to serve."""
        return min(served, self._caps.get(api, served))

    def next_fault(self, api: str, node_id: int) -> Fault:
        """Remove and return the fault for this request of a node."""
        self.requests.add(api)
        if any(wanted in (None, api) and at in (None, node_id) for wanted, at in self._blackholes):
            return SWALLOWED
        waiting = self._waiting.get(api)
        return waiting.popleft() if waiting else NO_FAULT

    def partition_error(self, api: str, partition: TopicPartition) -> ErrorCode:
        """Remove and return the error for this partition, NONE if there is none."""
        faults = self._partition_faults.get(api)
        for fault in list(faults or ()):
            if faults is not None and fault.partition == partition:
                faults.remove(fault)
                return fault.error_code
        return ErrorCode.NONE

    def on_release(self, wakeup: Callable[[], None]) -> None:
        """Register a callback. It is called, from any thread, when held responses are released and nodes have to send them."""
        self._wakeups.append(wakeup)

    def off_release(self, wakeup: Callable[[], None]) -> None:
        """Remove a callback that on_release() registered. No effect if it is not registered."""
        self._wakeups = [known for known in self._wakeups if known != wakeup]

    def released(self, node_id: int) -> list[Act]:
        """Return the functions that send released responses of this node, and remove them. The node has to call them now."""
        return [act for hold in self._holds for act in hold.take(node_id)]

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            wakeup()

    def _add(self, api: str, faults: list[Fault]) -> None:
        self.requests.check(api)
        self._waiting.setdefault(api, deque()).extend(faults)

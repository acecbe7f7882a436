"""Faults on request, for tests of clients: errors; lost, delayed and held responses; throttling, disconnects, older versions.

A fault waits for the next request of its API and is used up by it. The faults of an API are used up in the order in which the test has
requested them, one per request of the client. The rest of the broker works normally. A blackhole, a version cap and bytes_at_a_time last
until clear(). All nodes of a cluster share their faults.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from levada.base.text import did_you_mean
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.types import TopicPartition

Act = Callable[[int], None]
"""A function that a node calls at a time, with that time."""


class Hold:
    """Responses that a test holds back until it calls release(), which it may do while the broker runs in another thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._kept: list[tuple[int, Act]] = []
        self.is_released = False

    @property
    def waiting(self) -> int:
        """The number of responses that are held now."""
        return len(self._kept)

    def release(self) -> None:
        """Release the held responses. Later responses are not held any more."""
        self.is_released = True
        self._wake()

    def keep(self, node_id: int, act: Act) -> None:
        """Hold a response, for the broker. After release(), the node calls `act`, which sends the response (or writes the markers of a
        transaction).
        """
        self._kept.append((node_id, act))

    def take(self, node_id: int) -> list[Act]:
        """Remove and return the functions that send a node's released responses, for the broker; before release() there are none."""
        taken = [act for node, act in self._kept if node == node_id and self.is_released]
        self._kept = [entry for entry in self._kept if entry[0] != node_id or not self.is_released]
        return taken


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a test has requested for one request, or for one partition of a request if `partition` is given.

    applied: whether the request is carried out. drop: send no response. cut_at: the number of bytes of the response that are sent before
    the connection is closed; None for all, without closing it.
    """

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
    """The number of requests to all nodes of a cluster, by API name. Markers that a transaction coordinator writes count as a request of
    WriteTxnMarkers. requests[api] raises ConfigError, not KeyError, for an API that the broker does not serve.
    """

    def __init__(self, apis: Iterable[str]) -> None:
        self._counts = dict.fromkeys(sorted(apis), 0)

    def __getitem__(self, api: str) -> int:
        self.check(api)
        return self._counts[api]

    # Mapping's versions of these two expect KeyError.
    def __contains__(self, api: object) -> bool:
        return api in self._counts

    def get(self, api: str, default: Any = None) -> Any:
        """Return the number of requests of an API, or the default if the broker does not serve it."""
        return self._counts.get(api, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return repr({api: count for api, count in self._counts.items() if count})

    def check(self, api: str) -> None:
        """Raise ConfigError unless the broker serves this API."""
        if api not in self._counts:
            hint = did_you_mean(api, self._counts) if isinstance(api, str) else ""
            raise ConfigError(f"the broker serves no API {api!r}{hint or '; it serves ' + ', '.join(self._counts)}")

    def add(self, api: str) -> None:
        """Count a request of an API, for the broker."""
        self._counts[api] += 1


class Faults:
    """The faults that a test has requested, by API name such as "Produce". A test may use it while the broker runs in another thread.

    known_apis: the APIs that the broker serves. by_partition: the APIs in which a single partition can fail.

    requests: the number of requests so far, by API name. bytes_at_a_time: the most bytes that the server reads or writes at once; None for
    no limit.
    """

    def __init__(self, known_apis: frozenset[str], by_partition: frozenset[str]) -> None:
        self._by_partition = by_partition
        self._waiting: dict[str, deque[Fault]] = {}
        self._partition_faults: dict[str, deque[Fault]] = {}
        self._caps: dict[str, int] = {}
        self._closing: set[str] = set()
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
        """Answer the next `times` requests of an API with an error, without carrying them out.

        topic, partition: return the error only for this partition, in the next `times` requests that name it, and carry out the rest of
        these requests; without a topic, all partitions fail. error_code: a levada.error_codes.ErrorCode, its name ("NOT_COORDINATOR") or
        its number (16). applied: carry out the request although it is answered with an error, as when an acknowledgement is lost inside
        the cluster; not possible for a single partition. Raises ValueError for NONE and for a code that Kafka does not have,
        ConfigError for an API that cannot fail like this.
        """
        code = ErrorCode.named(error_code)
        if code is ErrorCode.NONE:
            raise ValueError("NONE is no error")
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
        """Carry out the nth request of an API from now on, but never answer it. The connection stays open and its later requests are not
        answered either, so the client has to time out.
        """
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, drop=True)])

    def disconnect(self, api: str, nth: int = 1, *, applied: bool = False) -> None:
        """Close the connection instead of answering the nth request of an API from now on. applied: carry out the request first."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=applied, disconnect=True)])

    def delay(self, api: str, ms: int, times: int = 1) -> None:
        """Delay the responses to the next `times` requests of an API by `ms` milliseconds."""
        self._add(api, [Fault(applied=True, delay_ms=ms)] * times)

    def hold(self, api: str, times: int = 1) -> Hold:
        """Carry out the next `times` requests of an API, but hold back their responses until release() of the returned Hold is called.

        For example, a hold of WriteTxnMarkers keeps transactions in PrepareCommit or PrepareAbort.
        """
        hold = Hold(self._wake)
        self._holds.append(hold)
        self._add(api, [Fault(applied=True, hold=hold)] * times)
        return hold

    def blackhole(self, api: str | None = None, *, node: int | None = None) -> None:
        """Ignore all requests from now on until clear(). A connection with an ignored request stays open, and its later requests are never
        answered either, not even after clear().

        api: the API whose requests are ignored, None for every API. node: the id of the node that ignores them, None for every node.
        """
        if api is not None:
            self.requests.check(api)
        self._blackholes.add((api, node))

    def close_mid_frame(self, api: str, nth: int = 1, *, after_bytes: int = 10) -> None:
        """Carry out the nth request of an API from now on, send only the first bytes of its response and close the connection.

        after_bytes: the number of bytes that are sent, including the size prefix.
        """
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, cut_at=after_bytes)])

    def throttle(self, api: str, ms: int, times: int = 1) -> None:
        """Report in the next `times` responses of an API that the client exceeds its quota, and do not read its connection for `ms`
        milliseconds (KIP-219).

        Responses without a field for the throttle time are not throttled.
        """
        self._add(api, [Fault(applied=True, throttle_ms=ms)] * times)

    def cap_version(self, api: str, max_version: int, *, closes: bool = False) -> None:
        """Serve the API only up to this version from now on, like an older broker. -1 stands for no version: the API is not
        served at all.

        closes: close the connection at a newer version of ApiVersions, as some services do; Kafka answers UNSUPPORTED_VERSION. At newer
        versions of other APIs Kafka closes the connection, too.
        """
        self.requests.check(api)
        self._caps[api] = max_version
        self._closing.discard(api)
        if closes:
            self._closing.add(api)

    def clear(self) -> None:
        """Remove all pending faults, version caps, blackholes and the limit bytes_at_a_time. Responses that are held stay held."""
        self.bytes_at_a_time = None
        self._waiting.clear()
        self._partition_faults.clear()
        self._caps.clear()
        self._closing.clear()
        self._blackholes.clear()

    def release_all(self) -> None:
        """Release the responses of all holds."""
        for hold in self._holds:
            hold.release()
        self._holds = [hold for hold in self._holds if hold.waiting]

    def max_version(self, api: str, served: int) -> int:
        """Return the highest version of an API to serve. served: the highest version that the broker supports."""
        return min(served, self._caps.get(api, served))

    def closes_at_newer(self, api: str) -> bool:
        """Return whether a request in a newer version than the highest to serve closes the connection (cap_version)."""
        return api in self._closing

    def next_fault(self, api: str, node_id: int) -> Fault:
        """Count a request, and remove and return the fault for it: NO_FAULT if there is none, SWALLOWED in a blackhole, which uses up no
        fault.
        """
        self.requests.add(api)
        if any(wanted in (None, api) and at in (None, node_id) for wanted, at in self._blackholes):
            return SWALLOWED
        waiting = self._waiting.get(api)
        return waiting.popleft() if waiting else NO_FAULT

    def partition_error(self, api: str, partition: TopicPartition) -> ErrorCode:
        """Remove and return the next error for a partition in a request of an API, NONE if there is none."""
        faults = self._partition_faults.get(api)
        for fault in list(faults or ()):
            if faults is not None and fault.partition == partition:
                faults.remove(fault)
                return fault.error_code
        return ErrorCode.NONE

    def on_release(self, wakeup: Callable[[], None]) -> None:
        """Register a callback that is called, on any thread, after held responses were released. It has to wake the nodes, which send the
        responses.
        """
        self._wakeups.append(wakeup)

    def off_release(self, wakeup: Callable[[], None]) -> None:
        """Remove a callback that was registered by on_release(). A callback that is not registered is ignored."""
        self._wakeups = [known for known in self._wakeups if known != wakeup]

    def released(self, node_id: int) -> list[Act]:
        """Remove and return the functions that send a node's released responses. The node has to call them."""
        return [act for hold in self._holds for act in hold.take(node_id)]

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            wakeup()

    def _add(self, api: str, faults: list[Fault]) -> None:
        self.requests.check(api)
        self._waiting.setdefault(api, deque()).extend(faults)

"""Faults on request, for tests of clients: errors, answers that are lost, late or held, throttling, disconnects, older versions (E12).

A fault waits for the next request of its API and is used up by it. Faults of one API are used up in the order they were asked for, one
per request; the rest of the broker is not involved. A blackhole lasts until clear(). All nodes of a cluster share their faults.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from levada.base.shown import did_you_mean
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.types import TopicPartition

Act = Callable[[int], None]
"""Something that a node does at a time."""


class Hold:
    """Answers that are kept back until release(), which may be called while the broker runs in another thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._kept: list[tuple[int, Act]] = []
        self.is_released = False

    @property
    def waiting(self) -> int:
        """How many answers are kept back now."""
        return len(self._kept)

    def release(self) -> None:
        """Let them go, and keep back none from now on."""
        self.is_released = True
        self._wake()

    def keep(self, node_id: int, act: Act) -> None:
        """Let a node do something once release() is called; for the node itself."""
        self._kept.append((node_id, act))

    def take(self, node_id: int) -> list[Act]:
        """Return what a node has to do now, and forget it; for the node itself."""
        taken = [act for node, act in self._kept if node == node_id and self.is_released]
        self._kept = [entry for entry in self._kept if entry[0] != node_id or not self.is_released]
        return taken


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
    hold: Hold | None = None
    partition: TopicPartition | None = None


NO_FAULT = Fault(applied=True)
SWALLOWED = Fault(drop=True)


class RequestCounts(Mapping[str, int]):
    """How many requests of each API came in, by name. ConfigError for an API that the broker does not serve: it could only be 0."""

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
        """Raise ConfigError for the name of an API that is not served."""
        if api not in self._counts:
            hint = did_you_mean(api, self._counts) if isinstance(api, str) else ""
            raise ConfigError(f"the broker serves no API {api!r}{hint or '; it serves ' + ', '.join(self._counts)}")

    def add(self, api: str) -> None:
        """Count a request; for the node itself."""
        self._counts[api] += 1


class Faults:
    """The faults a test has asked for, by API name ("Produce"). Safe to call while the broker runs in another thread.

    known_apis: those that are served. by_partition: those of which one partition can fail.

    requests: how many requests of each API came in so far, by name. bytes_at_a_time: the server reads and writes at most so many at once;
    None for as many as there are.
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
        """Answer the next `times` requests with an error, in all their partitions or only in one. What was asked is not done.

        error_code: a levada.error_codes.ErrorCode, its name ("NOT_COORDINATOR") or its number (16). applied: do what was asked and answer
        with the error all the same, as when an acknowledgement is lost inside the cluster; not for one partition. ValueError for a code
        that Kafka does not have, ConfigError for an API that cannot fail like this.
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
        """Apply the nth next request and never answer it. The connection stays open, silent and busy, so its client has to time out."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=True, drop=True)])

    def disconnect(self, api: str, nth: int = 1, *, applied: bool = False) -> None:
        """Close the connection instead of answering the nth next request. applied: do what was asked first."""
        self._add(api, [NO_FAULT] * (nth - 1) + [Fault(applied=applied, disconnect=True)])

    def delay(self, api: str, ms: int, times: int = 1) -> None:
        """Hold back the answers to the next `times` requests for `ms` milliseconds."""
        self._add(api, [Fault(applied=True, delay_ms=ms)] * times)

    def hold(self, api: str, times: int = 1) -> Hold:
        """Carry out the next `times` requests and keep their answers back until release() of what this returns.

        Holding WriteTxnMarkers keeps transactions in PrepareCommit or PrepareAbort.
        """
        hold = Hold(self._wake)
        self._holds.append(hold)
        self._add(api, [Fault(applied=True, hold=hold)] * times)
        return hold

    def blackhole(self, api: str | None = None, *, node: int | None = None) -> None:
        """Read requests from now on without carrying them out or answering, until clear(). None: of every API, on every node."""
        if api is not None:
            self.requests.check(api)
        self._blackholes.add((api, node))

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
        self.requests.check(api)
        self._caps[api] = max_version

    def clear(self) -> None:
        """Forget all faults and version caps that wait, end blackholes, and take whole frames again. What is held stays so."""
        self.bytes_at_a_time = None
        self._waiting.clear()
        self._partition_faults.clear()
        self._caps.clear()
        self._blackholes.clear()

    def release_all(self) -> None:
        """Let go everything that is held."""
        for hold in self._holds:
            hold.release()
        self._holds = [hold for hold in self._holds if hold.waiting]

    def max_version(self, api: str, served: int) -> int:
        """Return the highest version to serve."""
        return min(served, self._caps.get(api, served))

    def next_fault(self, api: str, node_id: int) -> Fault:
        """Return and use up what is to happen to this request of a node."""
        self.requests.add(api)
        if any(wanted in (None, api) and at in (None, node_id) for wanted, at in self._blackholes):
            return SWALLOWED
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

    def on_release(self, wakeup: Callable[[], None]) -> None:
        """Call back, from any thread, when nodes have something to do that was held."""
        self._wakeups.append(wakeup)

    def off_release(self, wakeup: Callable[[], None]) -> None:
        """Call back no more."""
        self._wakeups = [known for known in self._wakeups if known != wakeup]

    def released(self, node_id: int) -> list[Act]:
        """Return and use up what was held and a node is to do now."""
        return [act for hold in self._holds for act in hold.take(node_id)]

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            wakeup()

    def _add(self, api: str, faults: list[Fault]) -> None:
        self.requests.check(api)
        self._waiting.setdefault(api, deque()).extend(faults)

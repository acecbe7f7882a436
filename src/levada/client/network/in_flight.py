"""Requests that were sent and not answered, per connection in the order sent.

A broker answers a connection's requests in order, so the next response belongs to the oldest request; the correlation id only confirms
it (N5). A request without an answer (acks=0) is over when it is written, and is then the newest one of its connection (N6, TR17).

For the same reason only the oldest request of a connection can be late. What stands behind a Fetch that may wait for data cannot be
answered before it. When the Fetch is answered, the next one has its own timeout from then on, but no longer than the Fetch still had. With
equal timeouts that changes nothing: each is late when its own is over (N13).

Looking for late requests walks over all connections, so it is done no sooner than one may be late: `next_deadline_ms` is never later than
the earliest deadline. It may be earlier, when the request that had it was answered; then one look finds nothing and sets it right.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise
from levada.client.network.connection_key import Peer
from levada.client.network.traffic import Traffic
from levada.errors import ProtocolError
from levada.protocol.schema import Request


class InFlightRequest:
    """One request of `size` bytes on its way.

    deadline_ms holds once the request is the oldest of its connection. It moves when the broker throttles: that time does not count (N27).
    promise is None for requests of the set-up.
    """

    __slots__ = (
        "correlation_id",
        "deadline_ms",
        "expect_response",
        "promise",
        "request_type",
        "sent_ms",
        "size",
        "timeout_ms",
        "version",
        "written",
    )

    def __init__(
        self,
        request_type: type[Request],
        version: int,
        correlation_id: int,
        promise: Promise[Any] | None,
        *,
        now_ms: int,
        timeout_ms: int,
        size: int,
        expect_response: bool = True,
    ) -> None:
        self.request_type = request_type
        self.version = version
        self.correlation_id = correlation_id
        self.promise = promise
        self.sent_ms = now_ms
        self.size = size
        self.timeout_ms = timeout_ms
        self.deadline_ms = now_ms + timeout_ms
        self.expect_response = expect_response
        self.written = False

    def __str__(self) -> str:
        return f"{self.request_type.NAME} v{self.version}"


class InFlightRequests:
    """The requests of all connections. limit: max.in.flight.requests.per.connection."""

    def __init__(self, limit: int) -> None:
        self.traffic = Traffic()
        self._limit = limit
        self._queues: dict[Peer, deque[InFlightRequest]] = {}
        self.next_deadline_ms = NEVER_MS
        """When a request may time out, or a little earlier."""

    @property
    def total(self) -> int:
        """How many requests are not answered."""
        return sum(len(queue) for queue in self._queues.values())

    def count(self, peer: Peer) -> int:
        """How many requests of a connection are not answered."""
        return len(self._queues.get(peer, ()))

    def can_send_more(self, peer: Peer) -> bool:
        """Whether another request may be sent: the newest one is written, and the limit is not reached (N2 d)."""
        queue = self._queues.get(peer)
        return not queue or (queue[-1].written and len(queue) < self._limit)

    def is_writing(self, peer: Peer) -> bool:
        """Whether the newest request is not written yet."""
        queue = self._queues.get(peer)
        return queue is not None and len(queue) > 0 and not queue[-1].written

    def add(self, peer: Peer, request: InFlightRequest) -> None:
        """A request is handed to the connection."""
        queue = self._queues.get(peer)
        if queue is None:
            queue = self._queues[peer] = deque()
        queue.append(request)
        self.traffic.sent(peer, request.size, request.sent_ms)
        self._note_deadline(queue[0])

    def written(self, peer: Peer) -> InFlightRequest | None:
        """The newest request was written. Return it, and forget it, when no answer will come."""
        queue = self._queues.get(peer)
        if not queue:
            return None
        queue[-1].written = True
        return None if queue[-1].expect_response else queue.pop()

    def oldest(self, peer: Peer) -> InFlightRequest | None:
        """Return the request that the next response belongs to."""
        queue = self._queues.get(peer)
        return queue[0] if queue else None

    def answered(self, peer: Peer, correlation_id: int, size: int, now_ms: int) -> InFlightRequest:
        """Remove and return the oldest request; ProtocolError when the response, of `size` bytes, is for another one, or for none."""
        queue = self._queues.get(peer)
        if not queue:
            raise ProtocolError(f"a response with correlation id {correlation_id} arrived although nothing was asked")
        if queue[0].correlation_id != correlation_id:
            oldest = queue[0]
            raise ProtocolError(f"a response with correlation id {correlation_id} arrived, {oldest} with {oldest.correlation_id} was next")
        answered = queue.popleft()
        self.traffic.received(peer, answered.request_type.NAME, size, now_ms - answered.sent_ms, now_ms)
        if queue:
            following = queue[0]
            following.deadline_ms = max(following.deadline_ms, min(answered.deadline_ms, now_ms + following.timeout_ms))
            self._note_deadline(following)
        return answered

    def throttled(self, peer: Peer, throttle_ms: int) -> None:
        """Give every request of a connection the time that the broker made it wait."""
        for request in self._queues.get(peer, ()):
            request.deadline_ms += throttle_ms

    def clear(self, peer: Peer) -> list[InFlightRequest]:
        """Remove and return the requests of a connection that ended, oldest first."""
        return list(self._queues.pop(peer, ()))

    def timed_out(self, now_ms: int) -> dict[Peer, InFlightRequest]:
        """Return the connections whose oldest request is past its deadline, with that request (N13)."""
        if now_ms < self.next_deadline_ms:
            return {}
        oldest = {peer: queue[0] for peer, queue in self._queues.items() if queue}
        self.next_deadline_ms = min((request.deadline_ms for request in oldest.values()), default=NEVER_MS)
        return {peer: request for peer, request in oldest.items() if now_ms >= request.deadline_ms}

    def _note_deadline(self, oldest: InFlightRequest) -> None:
        if oldest.deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = oldest.deadline_ms

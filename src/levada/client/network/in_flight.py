"""The requests that were sent and not answered: per connection, in the order in which they were sent.

A broker answers the requests of a connection in order, so the next response belongs to the oldest request; the correlation id only confirms
it. A request without a response (acks=0) is complete when it is written, and is then the newest of its connection.

For the same reason only the oldest request of a connection can time out. A request behind a Fetch that waits for data cannot be answered
before the Fetch. When the Fetch is answered, the next request gets its whole timeout from then on, but not beyond the deadline that the
Fetch had. With equal timeouts this changes nothing: each request times out when its own timeout is over.

Looking for timeouts iterates over all connections, so it is done only at `next_deadline_ms`, which is never later than the earliest
deadline. It may be earlier, when the request that had this deadline was answered; then one iteration finds nothing and corrects it.
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
    """A request that was sent. size: its size in bytes.

    deadline_ms is valid once the request is the oldest of its connection. It moves when the broker throttles, because throttle time does
    not count. promise is None for requests of the set-up.
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
    """The requests in flight of all connections. limit: max.in.flight.requests.per.connection."""

    def __init__(self, limit: int) -> None:
        self.traffic = Traffic()
        self._limit = limit
        self._queues: dict[Peer, deque[InFlightRequest]] = {}
        self.next_deadline_ms = NEVER_MS
        """When a request may time out, or a little earlier."""

    @property
    def total(self) -> int:
        """The number of requests without a response, on all connections."""
        return sum(len(queue) for queue in self._queues.values())

    def count(self, peer: Peer) -> int:
        """Return the number of requests of a connection without a response."""
        return len(self._queues.get(peer, ()))

    def largest(self, peer: Peer) -> int:
        """Return the size in bytes of the largest request of a connection without a response; 0 if there is none."""
        return max((request.size for request in self._queues.get(peer, ())), default=0)

    def can_send_more(self, peer: Peer) -> bool:
        """Whether another request may be sent: all requests are completely written, and the limit is not reached."""
        queue = self._queues.get(peer)
        return not queue or (queue[-1].written and len(queue) < self._limit)

    def is_writing(self, peer: Peer) -> bool:
        """Whether the newest request of a connection is not completely written yet."""
        queue = self._queues.get(peer)
        return queue is not None and len(queue) > 0 and not queue[-1].written

    def add(self, peer: Peer, request: InFlightRequest) -> None:
        """Add a request that was passed to the connection."""
        queue = self._queues.get(peer)
        if queue is None:
            queue = self._queues[peer] = deque()
        queue.append(request)
        self.traffic.sent(peer, request.size, request.sent_ms)
        self._note_deadline(queue[0])

    def written(self, peer: Peer) -> InFlightRequest | None:
        """Record that the newest request was written. If no response is expected to it, remove and return it; else return None."""
        queue = self._queues.get(peer)
        if not queue:
            return None
        queue[-1].written = True
        return None if queue[-1].expect_response else queue.pop()

    def oldest(self, peer: Peer) -> InFlightRequest | None:
        """Return the oldest request of a connection, to which the next response belongs; None if there is none."""
        queue = self._queues.get(peer)
        return queue[0] if queue else None

    def answered(self, peer: Peer, correlation_id: int, size: int, now_ms: int) -> InFlightRequest:
        """Remove and return the oldest request, because a response has come. size: the size of the response in bytes.

        Raises ProtocolError if the response is for another request, or if there is no request.
        """
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
        """Move the deadlines of a connection's requests by the time for which the broker throttled it."""
        for request in self._queues.get(peer, ()):
            request.deadline_ms += throttle_ms

    def clear(self, peer: Peer) -> list[InFlightRequest]:
        """Remove and return the requests of a connection that ended, oldest first."""
        return list(self._queues.pop(peer, ()))

    def timed_out(self, now_ms: int) -> dict[Peer, InFlightRequest]:
        """Return the connections whose oldest request is past its deadline, with that request."""
        if now_ms < self.next_deadline_ms:
            return {}
        oldest = {peer: queue[0] for peer, queue in self._queues.items() if queue}
        self.next_deadline_ms = min((request.deadline_ms for request in oldest.values()), default=NEVER_MS)
        return {peer: request for peer, request in oldest.items() if now_ms >= request.deadline_ms}

    def _note_deadline(self, oldest: InFlightRequest) -> None:
        if oldest.deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = oldest.deadline_ms

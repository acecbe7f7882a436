# cython: annotation_typing=False
"""The accounting of the producer's memory (BufferPool in Java).

`buffer.memory` limits the memory of the producer. A batch is charged before it is made. The charge is released when the batch has left the
queue and the network, and its callbacks have run. A record that failed without a batch is charged until its callback has run. If there is
too little memory, the caller joins a queue and gets a Ticket. Released memory goes to the oldest ticket only, which collects it until it
has enough, so that small records do not starve a large one. Nothing blocks in here: the caller waits for `ticket.promise` without the
engine's lock, and cancels the ticket when its time is over. Java also reuses buffers; in Python the allocator does that better.

A [c] module: compiled, a charge is atomic, so the appender charges without the engine's lock.
"""

from __future__ import annotations

from collections import deque

from levada.base.promise import Promise
from levada.errors import KafkaError


class Ticket:
    """A place in the queue for memory. `promise`: resolved with the size once the memory is charged to the ticket."""

    __slots__ = ("granted", "promise", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = 0
        self.promise: Promise[int] = Promise()


class BufferPool:
    """Charges and releases `total` bytes; waiting callers are served in order."""

    __slots__ = ("_available", "_closed", "_waiters", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._available = total
        self._waiters: deque[Ticket] = deque()
        self._closed: KafkaError | None = None

    @property
    def available(self) -> int:
        """Bytes that are not charged, not even to a waiting ticket."""
        return self._available

    @property
    def queued(self) -> int:
        """How many tickets are waiting. While there are any, every partition is due."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bool:
        """Charge at once if there is enough memory and no ticket is waiting."""
        if self._closed is not None:
            raise self._closed
        if self._waiters or size > self._available:
            return False
        self._available -= size
        return True

    def spare(self) -> int:
        """Return how many bytes try_allocate() could charge."""
        return 0 if self._waiters or self._available < 0 else self._available

    def overdraw(self, size: int) -> None:
        """Charge memory that is in use already, even beyond `total`. Others wait until it is released."""
        self._available -= size

    def enqueue(self, size: int) -> Ticket:
        """Join the queue. The caller waits for the promise, then calls redeem(), or cancel() to give up."""
        self._check(size)
        ticket = Ticket(size)
        self._waiters.append(ticket)
        self._serve()
        return ticket

    def release(self, size: int) -> None:
        """Release charged bytes; works after close(), too."""
        self._available += size
        self._serve()

    def redeem(self, ticket: Ticket) -> bool:
        """Turn a ticket with enough memory into an ordinary charge. False if it does not have enough yet."""
        if ticket.granted < ticket.size:
            return False
        ticket.granted = 0
        return True

    def cancel(self, ticket: Ticket) -> None:
        """Leave the queue, and release what the ticket has collected; no effect after redeem()."""
        granted, ticket.granted = ticket.granted, 0
        if ticket in self._waiters:
            self._waiters.remove(ticket)
        self.release(granted)

    def close(self, error: KafkaError) -> None:
        """Fail waiting and future tickets with this error."""
        self._closed = error
        waiters, self._waiters = self._waiters, deque()
        for ticket in waiters:
            self._available += ticket.granted
            ticket.granted = 0
        for ticket in waiters:
            ticket.promise.reject(error)

    def _check(self, size: int) -> None:
        if self._closed is not None:
            raise self._closed
        if size > self.total:
            raise ValueError(f"{size} bytes were asked of buffer.memory={self.total}: the wait would never end")

    def _serve(self) -> None:
        """Give available memory to the oldest tickets, one after the other."""
        while self._waiters and self._available >= 0:
            ticket = self._waiters[0]
            part = min(ticket.size - ticket.granted, self._available)
            ticket.granted += part
            self._available -= part
            if ticket.granted < ticket.size:
                return
            self._waiters.popleft()
            ticket.promise.resolve(ticket.size)

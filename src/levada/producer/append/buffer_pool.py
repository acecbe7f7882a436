# cython: annotation_typing=False
"""The producer's memory, counted.

`buffer.memory` bounds what the producer holds. Every batch is charged before it exists and refunded when it has left the queue and
the network and its callbacks have run; a record that failed without a batch is charged until its callback has run. Who finds too little
joins a queue and gets a Ticket; returning memory goes to the oldest ticket only, which gathers partial amounts until it has all of them,
so a large record is not starved by small ones. Nobody waits in here: the caller waits for `ticket.promise` outside the engine lock,
and cancels the ticket when its time is over. Java also keeps a list of buffers to use again; in Python the allocator does that
better, so only the accounting is kept.

A [c] module: compiled, a charge is one step that no other thread sees half done, so the appender charges without the engine's lock.
"""

from __future__ import annotations

from collections import deque

from levada.base.promise import Promise
from levada.errors import KafkaError


class Ticket:
    """A place in the queue for memory. `promise` resolves with the size once it is charged to the holder."""

    __slots__ = ("granted", "promise", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = 0
        self.promise: Promise[int] = Promise()


class BufferPool:
    """Counts `total` bytes out and in, first come first served."""

    __slots__ = ("_available", "_closed", "_waiters", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._available = total
        self._waiters: deque[Ticket] = deque()
        self._closed: KafkaError | None = None

    @property
    def available(self) -> int:
        """Bytes that are charged to nobody, not even to a waiting ticket."""
        return self._available

    @property
    def queued(self) -> int:
        """How many tickets wait; while there are any, every partition is due."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bool:
        """Charge at once when there is enough and nobody was here before."""
        if self._closed is not None:
            raise self._closed
        if self._waiters or size > self._available:
            return False
        self._available -= size
        return True

    def spare(self) -> int:
        """Return how much try_allocate() would charge at once."""
        return 0 if self._waiters or self._available < 0 else self._available

    def overdraw(self, size: int) -> None:
        """Charge what is there already, even if more is out then than there is: everybody else waits until it has come back."""
        self._available -= size

    def enqueue(self, size: int) -> Ticket:
        """Join the queue. The holder waits for the promise, then calls redeem(), and cancel() if it gives up."""
        self._check(size)
        ticket = Ticket(size)
        self._waiters.append(ticket)
        self._serve()
        return ticket

    def release(self, size: int) -> None:
        """Give back what was charged; works after close() too."""
        self._available += size
        self._serve()

    def redeem(self, ticket: Ticket) -> bool:
        """Take over what a ticket gathered: True, from now on it is a charge like any other. False when it has not enough yet."""
        if ticket.granted < ticket.size:
            return False
        ticket.granted = 0
        return True

    def cancel(self, ticket: Ticket) -> None:
        """Leave the queue, or give back an amount that is not wanted any more; harmless after redeem()."""
        granted, ticket.granted = ticket.granted, 0
        if ticket in self._waiters:
            self._waiters.remove(ticket)
        self.release(granted)

    def close(self, error: KafkaError) -> None:
        """Turn away everybody who waits, and everybody who comes."""
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
        """Hand what is available to the oldest tickets, one after the other."""
        while self._waiters and self._available >= 0:
            ticket = self._waiters[0]
            part = min(ticket.size - ticket.granted, self._available)
            ticket.granted += part
            self._available -= part
            if ticket.granted < ticket.size:
                return
            self._waiters.popleft()
            ticket.promise.resolve(ticket.size)

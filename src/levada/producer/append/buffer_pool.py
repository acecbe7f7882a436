# cython: annotation_typing=False
"""The accounting of the producer's memory (BufferPool in Java).

`buffer.memory` limits the memory of the producer. The memory of a batch is charged before the batch is queued. It is released when the
outcome of the batch is known, no request with the batch is in flight, and its callbacks have run. A record that failed without a batch is
charged until its callback has run. If memory is short, the caller joins a queue and gets a Ticket. Released memory is given to the oldest
ticket until that ticket has enough, so that small records do not starve a large record. Nothing blocks in this module: the caller waits
for `ticket.promise` without the engine's lock, and cancels the ticket at its deadline. Java also reuses buffers; Python's allocator is
better at that.

A [c] module: compiled, a charge is atomic, so the appender charges without the engine's lock.
"""

from __future__ import annotations

from collections import deque

from levada.base.promise import Promise
from levada.errors import KafkaError


class Ticket:
    """A place in the queue for memory. size: bytes wanted. granted: bytes granted so far. promise: resolved when all bytes are granted."""

    __slots__ = ("granted", "promise", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = 0
        self.promise: Promise[int] = Promise()


class BufferPool:
    """Charges and releases memory, up to `total` bytes (buffer.memory). Callers that wait are served in order."""

    __slots__ = ("_available", "_closed", "_waiters", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._available = total
        self._waiters: deque[Ticket] = deque()
        self._closed: KafkaError | None = None

    @property
    def available(self) -> int:
        """Bytes that are neither charged nor granted to a waiting ticket. Negative after overdraw() has charged more than there was."""
        return self._available

    @property
    def queued(self) -> int:
        """How many tickets are waiting. While a ticket waits, all batches are sent without waiting for linger.ms."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bool:
        """Charge `size` bytes if they are available and no ticket is waiting; return whether they were charged.

        Raises the error that close() was called with.
        """
        if self._closed is not None:
            raise self._closed
        if self._waiters or size > self._available:
            return False
        self._available -= size
        return True

    def spare(self) -> int:
        """Return how many bytes try_allocate() could charge now."""
        return 0 if self._waiters or self._available < 0 else self._available

    def overdraw(self, size: int) -> None:
        """Charge memory that is already in use, even beyond `total`. Other callers wait until enough memory is released."""
        self._available -= size

    def enqueue(self, size: int) -> Ticket:
        """Join the queue for `size` bytes. The caller waits for the ticket's promise, then calls redeem(), or calls cancel() to give up.

        Raises the error that close() was called with, and ValueError if `size` is larger than `total`.
        """
        self._check(size)
        ticket = Ticket(size)
        self._waiters.append(ticket)
        self._serve()
        return ticket

    def release(self, size: int) -> None:
        """Release charged bytes. Allowed after close()."""
        self._available += size
        self._serve()

    def redeem(self, ticket: Ticket) -> bool:
        """Make the memory of a ticket an ordinary charge, which the caller has to release. Return whether that was possible.

        False if bytes are still missing, and if the ticket was redeemed before.
        """
        if ticket.granted < ticket.size:
            return False
        ticket.granted = 0
        return True

    def cancel(self, ticket: Ticket) -> None:
        """Remove a ticket from the queue and release the memory granted to it. No effect after redeem()."""
        granted, ticket.granted = ticket.granted, 0
        if ticket in self._waiters:
            self._waiters.remove(ticket)
        self.release(granted)

    def close(self, error: KafkaError) -> None:
        """Reject the promises of waiting tickets with an error. Later calls of try_allocate() and enqueue() raise the same error."""
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
        """Grant available memory to the tickets, oldest first."""
        while self._waiters and self._available >= 0:
            ticket = self._waiters[0]
            part = min(ticket.size - ticket.granted, self._available)
            ticket.granted += part
            self._available -= part
            if ticket.granted < ticket.size:
                return
            self._waiters.popleft()
            ticket.promise.resolve(ticket.size)

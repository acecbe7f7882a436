# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
# ruff: noqa: F821 - the C functions are named in short_io.pxd
"""Short calls to the system, with the interpreter's lock kept: reads and writes of non-blocking sockets, and whether one is ready.

The methods of `socket` give the lock up around each call. Beside a busy thread it comes back up to five milliseconds later
(sys.getswitchinterval), and the engine's lock is held meanwhile, so the other threads of a client wait as well. A few kilobytes take
microseconds.

Giving up the lock for a moment does not help other threads either: it is taken again before one of them has woken up, and that thread then
begins a new wait of the switch interval. So a loop of such moments keeps the program's other threads waiting without limit.

A [c] module, of use only where it is compiled; the C types are in short_io.pxd.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

COMPILED: bool = cython.compiled


def receive(descriptor: int, buffer: Any) -> int | None:
    """Read into a buffer; return the number of bytes, 0 at the end of the stream, None if no bytes have arrived. Raises OSError."""
    target = buffer
    count = recv(descriptor, cython.address(target[0]), len(target), 0)  # type: ignore[name-defined]
    if count < 0:
        failed()
        return None
    return count  # type: ignore[no-any-return]


def write(descriptor: int, data: Any) -> int:
    """Write bytes; return how many were written, 0 if the socket takes none now. Raises OSError."""
    source = data
    count = send(descriptor, cython.address(source[0]), len(source), 0)  # type: ignore[name-defined]
    return failed() if count < 0 else count


def is_ready(descriptor: int) -> bool:
    """Return whether a descriptor is readable now.

    If the system cannot tell, return True: the following read or select() then finds out.
    """
    asked = cython.declare(pollfd)  # type: ignore[name-defined]
    asked.fd = descriptor
    asked.events = POLLIN  # type: ignore[name-defined]
    asked.revents = 0
    return poll(cython.address(asked), 1, 0) != 0  # type: ignore[name-defined, no-any-return]


def failed() -> int:
    """Return 0 if the failed system call only has to be repeated later. Raises OSError otherwise."""
    code = errno  # type: ignore[name-defined]
    if code in (EAGAIN, EINTR):  # type: ignore[name-defined]
        return 0
    raise OSError(code, os.strerror(code))

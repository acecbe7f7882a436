"""A client that is dropped without close(): its I/O thread ends it."""

from __future__ import annotations

import weakref

from levada.sync.driver import Driver


def start(client: object, driver: Driver) -> None:
    """Start a client's driver. It ends by itself when the last reference to the client is gone.

    Nothing the driver holds may refer to the client. The garbage collector drops things in any thread, between any two bytecodes, so this
    only leaves a note for the I/O thread. It comes before the start: a signal handler may raise in a constructor as well.
    """
    weakref.finalize(client, driver.abandon).atexit = False
    driver.start()

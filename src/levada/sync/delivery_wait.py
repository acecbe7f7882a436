"""How the threads of a producer's users wait for deliveries. Handles refer to this and not to the producer, which may be dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levada.api.producing import Producing
from levada.base.promise import Promise
from levada.producer.core import wait_for_all
from levada.sync.driver import Driver


class DeliveryWait:
    """Waits on a driver, but not on the thread that runs callbacks."""

    def __init__(self, driver: Driver, producing: Producing) -> None:
        self._driver = driver
        self._producing = producing

    def one(self, promise: Promise[Any], timeout: float | None, what: str) -> None:
        """Wait for one batch."""
        self._producing.refuse_in_callback("waiting for a delivery")
        self._driver.wait(promise, timeout, what)

    def all(self, promises: Sequence[Promise[Any]], timeout: float | None, what: str) -> None:
        """Wait for several batches."""
        self._producing.refuse_in_callback("waiting for deliveries")
        self._driver.run(wait_for_all(promises), timeout, what)

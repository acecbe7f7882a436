"""The block of a transaction: with producer.transaction() as txn."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from levada.face.transacting import Transacting
from levada.sync.driver import Driver


class Transaction:
    """One transaction. Commits at the end of the block, aborts it on an exception, Ctrl-C included."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._transacting = transacting
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._driver.call(self._transacting.enter(self._timeout))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._driver.call(self._transacting.leave(error, self._timeout))

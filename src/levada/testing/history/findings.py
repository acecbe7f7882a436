"""The type of a check, and of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from levada.testing.history.events import Found
from levada.testing.history.ledger import Ledger


class Finding(NamedTuple):
    """A violation that a check has found. check: the name of the check, K1 to K13. evidence: a few lines that prove the violation."""

    check: str
    what: str
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join((f"{self.check}: {self.what}", *self.evidence))


class FinalReads(NamedTuple):
    """The contents of the topics after a run.

    log: all records in the logs. committed: all records that a read_committed consumer returns.
    """

    log: tuple[Found, ...]
    committed: tuple[Found, ...]


Findings: TypeAlias = Iterator[Finding]
Check: TypeAlias = Callable[[Ledger, FinalReads], Findings]

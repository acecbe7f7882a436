"""How long a program has waited in calls of its producer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from levada.client.host import Host

TIMED: Mapping[str, str] = {
    "metadata-wait": "waited for metadata of a topic",
    "flush": "spent in flush()",
    "txn-init": "spent in init_transactions()",
    "txn-begin": "spent in begin_transaction()",
    "txn-send-offsets": "spent in send_offsets_to_transaction()",
    "txn-commit": "spent in commit_transaction()",
    "txn-abort": "spent in abort_transaction()",
}
"""What is counted, by the names of Java's metrics."""


class CallTimes:
    """took_ms: in all, by the names of TIMED."""

    def __init__(self) -> None:
        self.took_ms = dict.fromkeys(TIMED, 0)

    @contextmanager
    def timing(self, what: str, host: Host) -> Iterator[None]:
        """Count how long a block takes. what: one of TIMED; for any other name nothing is counted."""
        began_ms = host.now_ms()
        try:
            yield
        finally:
            if what in TIMED:
                with host.lock:
                    self.took_ms[what] += host.now_ms() - began_ms

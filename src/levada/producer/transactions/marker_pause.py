"""How long the first batch of a transaction is kept back for the markers of the one before."""

from __future__ import annotations

from typing import Final

from levada.client.now import Now
from levada.clock import NEVER_MS

BROKERS_PAUSE_MS: Final = 20


class MarkerPause:
    """Keeps batches back while the markers of the transaction before are probably still being written (KIP-890).

    EndTxn is answered before they are. A batch that comes sooner waits on the broker, which asks the coordinator again only after its
    add.partitions.to.txn.retry.backoff.ms, 20 ms if not configured otherwise. Writing markers takes about as long as what came before the
    answer to EndTxn, so a batch is kept back for that time, but no longer than the broker would.
    """

    def __init__(self, now: Now) -> None:
        self._now = now
        self._asked_ms = 0
        self.until_ms = NEVER_MS

    @property
    def is_on(self) -> bool:
        """Whether batches are to be kept back; poll() tells when no longer."""
        return self.until_ms != NEVER_MS

    def end_asked(self) -> None:
        """EndTxn is being sent."""
        self._asked_ms = self._now.ms

    def end_answered(self) -> None:
        """The transaction has ended; keep batches back from now on."""
        took_ms = max(self._now.ms - self._asked_ms, 1)
        self.until_ms = self._now.ms + min(took_ms, BROKERS_PAUSE_MS)

    def poll(self, now_ms: int) -> bool:
        """Return whether the pause has just ended."""
        if now_ms < self.until_ms:
            return False
        self.until_ms = NEVER_MS
        return True

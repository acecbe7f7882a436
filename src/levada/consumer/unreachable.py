"""What a consumer says while no broker was ever reached: an error where that is for good, else a warning, once."""

from __future__ import annotations

from levada.client.host import DeferredLog
from levada.client.network.network_client import NetworkClient
from levada.errors import KafkaError

LAST_WORD_GRACE_MS = 400
"""A call that ends may speak up earlier than one that goes on trying."""


class Unreachable:
    """See the module's text. Used under the engine's lock."""

    def __init__(self, network: NetworkClient, log: DeferredLog) -> None:
        self._network = network
        self._log = log
        self._told = False

    def explain(self, since_ms: int, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise, None while waiting on is right. since_ms: how long a broker has been waited for.

        last_word: the call would return without a record.
        """
        if not self._network.failures():
            return None
        if self._network.unrecoverable:
            return self._network.bootstrap_error(0)
        if last_word and not self._told and now_ms - since_ms >= LAST_WORD_GRACE_MS:
            self._told = True
            error = self._network.bootstrap_error(round((now_ms - since_ms) / 1000, 1))
            self._log.warning("%s; still trying", error)
        return None

"""Why nothing arrives, in words.

A caller that gets no records must be able to tell an idle topic from trouble. An answer without records is no trouble; silence is.
Trouble that trying again will not mend soon is reported by the call that would otherwise return empty-handed; any trouble, once nothing
was heard for default.api.timeout.ms.
"""

from __future__ import annotations

from levada.client.metadata import Metadata
from levada.client.network_client import NetworkClient
from levada.consumer.known_topics import UNKNOWN_GRACE_MS, check_exists
from levada.consumer.subscription_state import PartitionState, SubscriptionState
from levada.errors import BrokerError, KafkaError, TimeoutError

LAST_WORD_GRACE_MS = 400
"""A call that ends may speak up earlier than one that goes on trying."""


class Stalls:
    """Looks at partitions that wait for a broker. Used under the engine's lock."""

    def __init__(self, subscription: SubscriptionState, metadata: Metadata, network: NetworkClient, *, patience_ms: int) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._network = network
        self._patience_ms = patience_ms

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise, None while waiting on is right. A stall is reported once per default.api.timeout.ms."""
        waiting = [state for state in self._subscription if not (state.paused or state.finished)]
        if not waiting:
            return None
        waited_ms = now_ms - min(state.heard_ms for state in waiting)
        if not self._network.ever_ready:
            patience_ms = 0 if self._network.unrecoverable else LAST_WORD_GRACE_MS if last_word else self._patience_ms
            return self._unreachable(waited_ms) if waited_ms >= patience_ms else None
        return self._missing(waiting, now_ms, LAST_WORD_GRACE_MS if last_word else UNKNOWN_GRACE_MS) or self._stalled(waiting, now_ms)

    def _unreachable(self, waited_ms: int) -> KafkaError | None:
        if not self._network.failures():
            return None
        return self._network.bootstrap_error(round(waited_ms / 1000, 1))

    def _missing(self, waiting: list[PartitionState], now_ms: int, grace_ms: int) -> BrokerError | None:
        snapshot = self._metadata.snapshot
        for state in waiting:
            try:
                check_exists(state.tp, snapshot, now_ms - state.heard_ms, grace_ms)
            except BrokerError as fault:
                return fault
        return None

    def _stalled(self, waiting: list[PartitionState], now_ms: int) -> KafkaError | None:
        stalled = [state for state in waiting if now_ms - state.heard_ms >= self._patience_ms]
        if not stalled:
            return None
        lines = [f"nothing was heard for {self._patience_ms / 1000:.1f} s of"]
        lines += [f"  {state.tp} (position {state.position}): {state.last_error or self._so_far(state)}" for state in stalled]
        lines += [f"  {address}  {cause}" for address, cause in self._network.failures().items()]
        for state in stalled:
            state.heard_ms = now_ms
        return TimeoutError("\n".join(lines))

    def _so_far(self, state: PartitionState) -> str:
        leader = self._metadata.snapshot.leader(state.tp)
        return "no leader is known" if leader is None else f"no answer from its leader, node {leader.id} at {leader.address}"

"""How long the first batch of a transaction waits for the markers of the transaction before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from levada.base.clock import NEVER_MS, Now
from levada.base.flow import Call, Flow, Sleep
from levada.base.promise import Promise
from levada.client.requests.destination import Coordinator, CoordinatorKind
from levada.errors import KafkaError
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest

BROKERS_PAUSE_MS: Final = 20
_SHORTEST_MS: Final = 2
"""Time is in whole milliseconds, so a pause of one millisecond may end at once."""
_LONGEST_SLEEP_MS: Final = 500
"""The longest pause between two requests: without enough in-sync replicas, markers may be delayed for minutes, for many producers."""
_WRITING_MARKERS: Final = frozenset({"PrepareCommit", "PrepareAbort"})


class MarkerPause:
    """Delays batches while the markers of the transaction before are being written (KIP-890).

    The coordinator answers EndTxn before it has written them. A batch that arrives earlier waits on the broker, which retries only after
    add.partitions.to.txn.retry.backoff.ms, 20 ms by default. Writing the markers takes about as long as EndTxn took. So for a batch that
    follows within that time the producer asks the coordinator whether they are written. A later batch is sent without asking. The requests
    stop when the transaction of the waiting batch ends. Without a response the pause ends by itself, no later than the broker's would.
    start: runs a flow on the engine, from a time on. over: called when batches need not wait any longer.
    """

    def __init__(
        self, transactional_id: str, now: Now, *, start: Callable[[Flow[Any], int], Promise[Any]], over: Callable[[], None]
    ) -> None:
        self._transactional_id = transactional_id
        self._now = now
        self._start = start
        self._over = over
        self._asked_ms = 0
        self._until_ms = NEVER_MS
        self._holds_batches = False
        self._query: Promise[Any] | None = None

    def end_asked(self) -> None:
        """Note that EndTxn is being sent."""
        self._asked_ms = self._now.ms

    def end_answered(self) -> None:
        """Note that the transaction has ended; delay batches from now on."""
        took_ms = self._now.ms - self._asked_ms
        self._until_ms = self._now.ms + min(took_ms + _SHORTEST_MS, BROKERS_PAUSE_MS)

    def holds(self) -> bool:
        """Whether a batch has to wait; then poll() asks the coordinator."""
        self._holds_batches = self._until_ms != NEVER_MS
        return self._holds_batches

    @property
    def waits_for(self) -> str:
        """What batches wait for, as text; empty if they do not wait."""
        if not self._holds_batches:
            return ""
        return "the markers of the transaction before, which cannot be written while a partition of it lacks a leader or replicas in sync"

    def let_go(self) -> None:
        """Note that no batch waits any more: they were dropped with their transaction."""
        self._holds_batches = False

    def poll(self, now_ms: int) -> int:
        """Ask the coordinator for waiting batches; return when to be polled again."""
        if now_ms >= self._until_ms:
            self._end()
            return now_ms
        if self._holds_batches and (self._query is None or self._query.done):
            self._query = self._start(self._ask(), now_ms)
        return self._until_ms

    def _end(self) -> None:
        self._until_ms = NEVER_MS
        self._holds_batches = False
        self._over()

    def _ask(self) -> Flow[None]:
        sleep_ms = 0
        while (yield from self._are_being_written()) and self._holds_batches:
            self._until_ms = self._now.ms + sleep_ms + BROKERS_PAUSE_MS
            yield Sleep(sleep_ms)
            sleep_ms = min(sleep_ms * 3 // 2 + 1, _LONGEST_SLEEP_MS)
        if self._holds_batches:
            self._end()

    def _are_being_written(self) -> Flow[bool]:
        """Ask the coordinator. If the request fails, return False: the batch is sent, and the broker waits if necessary."""
        coordinator = Coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)
        try:
            reply = yield Call(DescribeTransactionsRequest(transactional_ids=[self._transactional_id]), coordinator)
        except KafkaError:
            return False
        return any(state.transaction_state in _WRITING_MARKERS for state in reply.transaction_states)

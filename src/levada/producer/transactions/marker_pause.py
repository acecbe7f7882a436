"""Decides how long the first batches of a transaction wait for the markers of the previous transaction."""

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
"""Added to the duration of EndTxn. Time is in whole milliseconds, so a pause of one millisecond might end at once."""
_LONGEST_SLEEP_MS: Final = 500
"""The longest pause between two requests. Without enough in-sync replicas, the markers of many producers may be delayed for minutes."""
_WRITING_MARKERS: Final = frozenset({"PrepareCommit", "PrepareAbort"})


class MarkerPause:
    """Delays batches while the markers of the previous transaction are being written (KIP-890).

    The coordinator answers EndTxn before it has written the markers. A batch that arrives before the markers waits on the broker, which
    retries only after add.partitions.to.txn.retry.backoff.ms, 20 ms by default. Writing the markers takes about as long as EndTxn took. So
    if a batch is ready within that time, the producer sends DescribeTransactions until the markers are written. A later batch is sent
    without this request. The requests stop when the transaction of the waiting batch ends. If there is no response, the pause ends by
    itself, no later than the pause of the broker would.
    start: runs a flow on the engine; called with the flow and the time in ms. over: called when batches need not wait any more.
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
        """Note that EndTxn was answered, and delay batches from now on, for 20 ms at most unless markers are still missing then."""
        took_ms = self._now.ms - self._asked_ms
        self._until_ms = self._now.ms + min(took_ms + _SHORTEST_MS, BROKERS_PAUSE_MS)

    def holds(self) -> bool:
        """Whether a batch has to wait now. If so, poll() asks the coordinator whether the markers are written."""
        self._holds_batches = self._until_ms != NEVER_MS
        return self._holds_batches

    @property
    def waits_for(self) -> str:
        """Text about the reason why batches wait; "" if no batch waits."""
        if not self._holds_batches:
            return ""
        return "the markers of the transaction before, which cannot be written while a partition of it lacks a leader or replicas in sync"

    def let_go(self) -> None:
        """Note that no batch waits any more, because the transaction is being ended, or its batches were dropped."""
        self._holds_batches = False

    def poll(self, now_ms: int) -> int:
        """End a pause that is over, or ask the coordinator if a batch waits. Return the time of the next poll in ms."""
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
        """Ask the coordinator whether markers are being written. If the request fails, return False: then the broker waits if necessary."""
        coordinator = Coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)
        try:
            reply = yield Call(DescribeTransactionsRequest(transactional_ids=[self._transactional_id]), coordinator)
        except KafkaError:
            return False
        return any(state.transaction_state in _WRITING_MARKERS for state in reply.transaction_states)

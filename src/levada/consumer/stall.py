"""Errors and warnings of a poll() that returns no records.

A program must be able to distinguish an idle topic from a fault. A fetch response without records is not a fault; a missing response is.

Permanent faults are raised: a topic or partition that does not exist or may not be read, and addresses where no Kafka broker listens. They
are raised by the poll() that would otherwise return without a record, or earlier. Temporary faults, such as brokers that do not answer, are
not raised: poll() returns nothing, as in Java. Nor is a fault raised for a partition that a group has assigned and that does not exist any
more: the group will notice. A subscribed topic that does not exist, and a pattern without a match, only cause a warning.

If no broker has answered for a partition for default.api.timeout.ms, a warning reports it with the cause. The next warning follows only
after the partition was answered for and then lost again. If the committed offsets of the group wait for an open transaction, the first
poll() that returns no record warns: only the transaction's producer, or a timeout, can end it. Two more faults
cause a warning: no broker was reached yet (once), and a rebalance takes long (once per rebalance).

This costs nothing per partition and poll(). Faults in metadata are looked up when metadata or the assignment changes. And answer times only
grow, so no partition can be overdue before the time that the last check of all partitions found.
"""

from __future__ import annotations

from collections.abc import Callable

from levada.base.clock import NEVER_MS
from levada.client.driver_interface import Deferred, DeferredLog
from levada.client.metadata.known_topics import FINAL_TOPIC_ERRORS, UNKNOWN_GRACE_MS, check_exists, error_of_partition, topic_error
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.network.network_client import NetworkClient
from levada.consumer.positions.committed_positions import CommittedPositions
from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError

LAST_WORD_GRACE_MS = 400
"""A call that is about to return without a record reports a fault that is this old; a call that continues waiting reports it later."""
LONG_REBALANCE_MS = 5_000
"""A rebalance that takes longer probably waits for a member that does not answer."""
LOOK_AROUND_MS = 250
"""How often partitions are checked while something is, or may be, wrong."""


REGEX_CHARACTERS = frozenset("^$*+?()[]{}|\\")
"""Characters of regular expressions that no topic's name has."""


class Unreachable:
    """Explains to a consumer that no broker was ever reached: with an error if that is permanent, else with one warning. Used under the
    lock.
    """

    def __init__(self, network: NetworkClient, log: DeferredLog) -> None:
        self._network = network
        self._log = log
        self._told = False

    def explain(self, since_ms: int, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise; None to continue waiting. since_ms: since when the consumer waits for a broker.

        last_word: whether poll() is about to return no records. Only such a call logs the warning.
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


class SubscribedTopics:
    """Finds subscribed topics that do not exist or may not be read, in the cluster's metadata. Used under the engine's lock.

    A topic without permission, or with an invalid name, is an error for every call. A topic that does not exist may still be created, and a
    pattern without a match may get one. For these a warning is logged, once until the topic exists.

    topics: returns the subscribed topics, or those that match the pattern; it must return the same set object while nothing has changed.
    pattern: returns the pattern, None without one; None for a consumer that takes no patterns.
    """

    def __init__(
        self,
        metadata: Metadata,
        deferred: Deferred,
        topics: Callable[[], frozenset[str]],
        pattern: Callable[[], str | None] | None = None,
    ) -> None:
        self._metadata = metadata
        self._log = deferred.log(__name__)
        self._topics = topics
        self._pattern = pattern
        self._compared: tuple[ClusterSnapshot, frozenset[str]] | None = None
        self._refused: tuple[str, ErrorCode] | None = None
        self._absent: dict[str, int] = {}
        """Texts about topics that do not exist and about a pattern without a match, and since when that is known."""
        self._told: set[str] = set()

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error of a topic that may not be read; None if there is none. Log a warning about missing topics.

        last_word: whether poll() is about to return no records.
        """
        self._compare(now_ms)
        grace_ms = LAST_WORD_GRACE_MS if last_word else UNKNOWN_GRACE_MS
        due = [text for text, since_ms in self._absent.items() if text not in self._told and now_ms - since_ms >= grace_ms]
        if due:
            self._told.update(due)
            # Without topics, it is the pattern that matches none.
            advice = "from it until it exists: create it, or check the name" if self._topics() else "until one does: check the pattern"
            self._log.warning("%s; nothing is read %s", ", ".join(due), advice)
        return None if self._refused is None else self.refusal(now_ms)

    def refusal(self, now_ms: int) -> KafkaError | None:
        """Return the error that every poll() raises about a subscribed topic; None if there is none."""
        self._compare(now_ms)
        if self._refused is None:
            return None
        name, code = self._refused
        is_regex = self._pattern is not None and not REGEX_CHARACTERS.isdisjoint(name)
        advice = f"; for a regular expression use subscribe(pattern={name.removeprefix('^')!r})" if is_regex else ""
        return topic_error(code, name, advice)

    @property
    def has_untold(self) -> bool:
        """Whether a subscribed topic does not exist, or the pattern has no match, and no warning about that was logged yet."""
        return self._absent.keys() != self._told

    def absent(self, now_ms: int) -> tuple[str, ...]:
        """Return a text about each subscribed topic that does not exist, about a pattern without a match, and about a topic that every
        poll() raises an error for.
        """
        refusal = self.refusal(now_ms)
        return (*self._absent, *(() if refusal is None else (str(refusal),)))

    def _compare(self, now_ms: int) -> None:
        topics, snapshot = self._topics(), self._metadata.snapshot
        if self._compared is not None and self._compared[0] is snapshot and self._compared[1] is topics:
            return
        self._compared = snapshot, topics
        errors = [(name, snapshot.topics[name].error) for name in sorted(topics & snapshot.topics.keys())]
        self._refused = next(((name, code) for name, code in errors if code in FINAL_TOPIC_ERRORS), None)
        absent = [f"topic '{name}' does not exist" for name, code in errors if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        pattern = self._pattern() if self._pattern is not None else None
        if pattern is not None and not topics and self._metadata.version:
            absent.append(f"no topic's whole name matches '{pattern}'")
        self._absent = {text: self._absent.get(text, now_ms) for text in absent}
        self._told &= self._absent.keys()


class Stalls:
    """Finds the error to raise, and the warnings to log, when poll() returns no records. Used under the engine's lock.

    topics: the subscribed topics. committed: the look-up of committed offsets; None without a group. rebalancing: returns whether the group
    has yet to give the consumer its partitions. patience_ms: default.api.timeout.ms.
    """

    def __init__(
        self,
        subscription: SubscriptionState,
        metadata: Metadata,
        network: NetworkClient,
        topics: SubscribedTopics,
        committed: CommittedPositions | None,
        *,
        rebalancing: Callable[[], bool],
        patience_ms: int,
        deferred: Deferred,
    ) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._network = network
        self._topics = topics
        self._committed = committed
        self._rebalancing = rebalancing
        self._patience_ms = patience_ms
        self._log = deferred.log(__name__)
        self.waits_since_ms = NEVER_MS
        """Since when the consumer is in a group, or joins it."""
        self._marks = subscription.listen()
        self._snapshot: ClusterSnapshot | None = None
        self._suspects: dict[PartitionState, None] = {}
        """Partitions that have an error in metadata."""
        self._overdue_ms = 0
        """No partition is overdue before this time."""
        self._told_of: dict[PartitionState, int] = {}
        """Partitions that a warning was written about, and when a broker had last answered for them."""
        self._unreachable = Unreachable(network, self._log)
        self._told_unstable = False
        """Whether it was warned that committed offsets wait for a transaction."""
        self._rebalancing_since_ms = NEVER_MS
        self._told_rebalancing = False

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise; None to continue waiting. Log the warnings that are due.

        last_word: whether poll() is about to return no records.
        """
        return self._fault_of_partitions(now_ms, last_word=last_word) or self._topics.explain(now_ms, last_word=last_word)

    def _fault_of_partitions(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        self._look_for_suspects()
        if not self._network.ever_answered:
            since_ms = min((state.heard_ms for state in self._subscription if _waits(state)), default=min(self.waits_since_ms, now_ms))
            return self._unreachable.explain(since_ms, now_ms, last_word=last_word)
        fault = self._missing(now_ms, self._grace_ms(last_word=last_word)) if self._suspects else None
        if fault is None and now_ms >= self._overdue_ms:
            self._warn(now_ms)
        self._look_for_open_transaction(last_word=last_word)
        self._look_for_long_rebalance(now_ms, last_word=last_word)
        return fault

    def _grace_ms(self, *, last_word: bool) -> int:
        """Return how long, in ms, a partition may be missing. In a group there is no limit (NEVER_MS), because the group may revoke the
        partition; with assign() it is a short time, in which the partition may still be created.

        last_word: whether poll() is about to return no records.
        """
        if self.waits_since_ms != NEVER_MS:
            return NEVER_MS
        return LAST_WORD_GRACE_MS if last_word else UNKNOWN_GRACE_MS

    def next_look_ms(self, now_ms: int) -> int:
        """The time, in ms, at which the result of explain() may change."""
        soon_ms = now_ms + LOOK_AROUND_MS
        is_wrong = self._suspects or self._topics.has_untold or not self._network.ever_answered
        return soon_ms if is_wrong else max(self._overdue_ms, soon_ms)

    def _look_for_suspects(self) -> None:
        """Look in metadata for errors of the partitions that have changed; of all partitions if metadata has changed."""
        snapshot = self._metadata.snapshot
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._suspects.clear()
            self._marks.update(dict.fromkeys(self._subscription))
        for state in self._marks:
            if not state.retired and error_of_partition(state.tp, snapshot) is not None:
                self._suspects[state] = None
            else:
                self._suspects.pop(state, None)
            if state.retired:
                self._told_of.pop(state, None)
        self._marks.clear()

    def _look_for_open_transaction(self, *, last_word: bool) -> None:
        """Log a warning if poll() returns no records because committed offsets wait for an open transaction; one warning per wait."""
        committed = self._committed
        if committed is None or not committed.unstable:
            self._told_unstable = False
        elif last_word and not self._told_unstable:
            self._told_unstable = True
            text = (
                "%s: no records yet, as the offsets of group '%s' wait for an open transaction; init_transactions() of a producer with the "
                "transactional.id that began it aborts it, else its coordinator does after transaction.timeout.ms"
            )
            self._log.warning(text, ", ".join(map(str, sorted(committed.unstable))), committed.group_id)

    def _look_for_long_rebalance(self, now_ms: int, *, last_word: bool) -> None:
        """Log a warning if poll() returns no records because a rebalance takes LONG_REBALANCE_MS or more; one warning per rebalance."""
        if not self._rebalancing():
            self._rebalancing_since_ms, self._told_rebalancing = NEVER_MS, False
            return
        self._rebalancing_since_ms = min(self._rebalancing_since_ms, now_ms)
        passed_ms = now_ms - self._rebalancing_since_ms
        if last_word and passed_ms >= LONG_REBALANCE_MS and not self._told_rebalancing:
            self._told_rebalancing = True
            text = (
                "no records yet: the consumer has waited for %.0f s to get its partitions; the group may wait for a member that was "
                "killed, until its session ends (session.timeout.ms), or for one that does not call poll(), until max.poll.interval.ms"
            )
            self._log.warning(text, passed_ms / 1000)

    def _missing(self, now_ms: int, grace_ms: int) -> BrokerError | None:
        for state in self._suspects:
            if _waits(state):
                try:
                    check_exists(state.tp, self._metadata.snapshot, now_ms - state.last_heard_ms, grace_ms)
                except BrokerError as fault:
                    return fault
        return None

    def _warn(self, now_ms: int) -> None:
        """Log a warning for partitions that no broker has answered for in time. It reports each silence of a partition once.

        A new silence begins when a broker has answered for the partition.
        """
        overdue, first_ms = [], NEVER_MS
        for state in self._subscription:
            if not _waits(state):
                continue
            due_ms = state.last_heard_ms + self._patience_ms
            if due_ms <= now_ms:
                overdue.append(state)
            else:
                first_ms = min(first_ms, due_ms)
        # Overdue partitions are checked again no later than they could become overdue once more.
        self._overdue_ms = min(first_ms, now_ms + self._patience_ms)
        told = [state for state in overdue if self._told_of.get(state) != state.last_heard_ms]
        if not told:
            return
        self._told_of.update((state, state.last_heard_ms) for state in told)
        lines = [f"nothing was heard for {self._patience_ms / 1000:.1f} s of"]
        lines += [f"  {state.tp} (position {state.position}): {state.last_error or self._so_far(state)}" for state in told]
        lines += self.failures()
        self._log.warning("%s", "\n".join(lines))

    def failures(self) -> list[str]:
        """Return a line with the cause of failure for each unreachable address."""
        return [f"  {address}  {cause}" for address, cause in self._network.failures().items()]

    def standstill(self, state: PartitionState, now_ms: int) -> str:
        """Return the reason why a position does not advance: the last error, a missing leader, or else when the leader last answered."""
        leader = self._metadata.snapshot.leader(state.tp)
        if state.last_error or leader is None:
            return state.last_error or self._so_far(state)
        return f"its leader, node {leader.id} at {leader.address}, last answered {(now_ms - state.last_heard_ms) / 1000:.1f} s ago"

    def _so_far(self, state: PartitionState) -> str:
        leader = self._metadata.snapshot.leader(state.tp)
        return "no leader is known" if leader is None else f"no answer from its leader, node {leader.id} at {leader.address}"


def _waits(state: PartitionState) -> bool:
    return not (state.paused or state.finished)

"""Why a consumer gets no records: the reason for each partition, and the most important one for the whole consumer.

The diagnosis uses the client's own state; no request is sent. CHECKS is the order in which a partition is examined: whether it was read
to its stop offset or is paused; what is in the buffer; what is wrong, from the topic, the broker and the leader to the position, open
transactions and failed fetches; last, whether the end of the log is reached. If nothing applies, the partition is being read. SEVERITY is
the order of importance of conditions of several partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from levada.client.metadata.known_topics import error_of_partition
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.consumer.positions.subscription_state import PartitionState, PartitionStatus
from levada.errors import KafkaError
from levada.types import UNKNOWN_OFFSET, AnyRecord, IsolationLevel, TopicPartition


class Condition(Enum):
    """The condition of a partition, or of a whole consumer. The values are texts for people."""

    NOT_ASSIGNED = "no partition is assigned"
    FENCED = "the group does not accept this consumer as a member any more; every poll() raises the reason"
    REBALANCING = "the consumer is joining its group, or the group is rebalancing; poll() continues this"
    FINISHED = "read to its end, which assign() or stop.at.end has set"
    PAUSED = "paused"
    ERROR_WAITS = "an error comes before its next records; the next poll() raises it"
    RECORDS_WAIT = "records are ready for the next poll()"
    DOES_NOT_EXIST = "the topic or partition does not exist, or may not be read"
    UNREACHABLE = "the broker to ask cannot be reached"
    NO_LEADER = "no broker leads the partition"
    COMMITTED_UNSETTLED = "the committed offsets of the group may be changed by an open transaction"
    NO_POSITION = "the position is being looked up"
    POSITION_IN_QUESTION = "the leader has changed, and the position is being validated in the new leader's log"
    OPEN_TRANSACTION = "the next record belongs to an open transaction, or comes after its first record"
    FAILING = "the last attempt to fetch failed, and is repeated"
    AT_END = "all records were read"
    READING = "being read"


SEVERITY: Sequence[Condition] = (
    Condition.FENCED,
    Condition.RECORDS_WAIT,
    Condition.ERROR_WAITS,
    Condition.REBALANCING,
    Condition.DOES_NOT_EXIST,
    Condition.UNREACHABLE,
    Condition.NO_LEADER,
    Condition.FAILING,
    Condition.COMMITTED_UNSETTLED,
    Condition.OPEN_TRANSACTION,
    Condition.POSITION_IN_QUESTION,
    Condition.NO_POSITION,
    Condition.READING,
    Condition.PAUSED,
    Condition.AT_END,
    Condition.FINISHED,
    Condition.NOT_ASSIGNED,
)
"""The conditions, the most important one first."""


class OpenTransaction(NamedTuple):
    """An open transaction that delays records. transactional_id: None if the brokers do not return it.

    first_offset: the offset of its first record in the partition. last_timestamp: the time of its last record, in ms since the epoch.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int


class PartitionHealth(NamedTuple):
    """The health of one partition. lag: offsets from the position to the end, as of the last fetch; None before a fetch.

    behind_s: the age of the next record in seconds, taken from its record batch if that is buffered; 0 at the end of the log; else None.
    detail: a text with addresses and causes. transactions: the transactions that the partition waits for, with OPEN_TRANSACTION.
    """

    partition: TopicPartition
    condition: Condition
    position: int | None
    lag: int | None
    behind_s: float | None
    detail: str
    transactions: tuple[OpenTransaction, ...] = ()


class ConsumerHealth(NamedTuple):
    """The health of a consumer, which tells why no records arrive. partitions: all assigned ones. unreachable: the cause for each address.

    fenced: the error that every poll() raises, with FENCED. To continue, call unsubscribe() and subscribe(), or make another consumer.
    absent: texts about subscribed topics that do not exist, about a pattern that matches no topic, and the error that every poll() raises
    about a topic that may not be read.
    """

    condition: Condition
    partitions: tuple[PartitionHealth, ...]
    unreachable: Mapping[str, str]
    fenced: KafkaError | None = None
    absent: tuple[str, ...] = ()

    @property
    def worst(self) -> PartitionHealth | None:
        """The first partition that has the consumer's condition; None if no partition has it, for example with REBALANCING or FENCED, or if
        none is assigned.
        """
        return next((one for one in self.partitions if one.condition is self.condition), None)

    def __str__(self) -> str:
        lines = [self.condition.value if self.fenced is None else f"{self.condition.value}: {self.fenced}"]
        lines += [f"  {text}" for text in self.absent]
        lines += [f"  {one.partition}: {one.detail}" for one in self.partitions]
        return "\n".join(lines + [f"  {address}  {cause}" for address, cause in self.unreachable.items()])


class Seen(NamedTuple):
    """The known facts about one partition.

    end: the offset up to which it may be read, -1 if unknown. unsettled: whether an open transaction may still change its committed offset.
    waits_for: the unacknowledged record because of which acks() has paused the partition; else None.
    """

    state: PartitionState
    end: int
    isolation_level: IsolationLevel
    snapshot: ClusterSnapshot
    failures: Mapping[str, str]
    ever_answered: bool
    unsettled: bool
    waits_for: AnyRecord | None = None


def _finished(seen: Seen) -> str | None:
    return f"read to offset {seen.state.stop_offset}" if seen.state.finished else None


def _paused(seen: Seen) -> str | None:
    if seen.waits_for is not None:
        return f"paused by acks() until the record at offset {seen.waits_for.offset} is done"
    return "paused; resume() goes on" if seen.state.paused else None


def _error(seen: Seen) -> str | None:
    # Records before the error may still be buffered.
    return Condition.ERROR_WAITS.value if seen.state.faulted and seen.state.position >= seen.state.fetch_offset else None


def _buffered(seen: Seen) -> str | None:
    return Condition.RECORDS_WAIT.value if seen.state.buffered > seen.state.passed else None


def _missing(seen: Seen) -> str | None:
    error = error_of_partition(seen.state.tp, seen.snapshot)
    return None if error is None else str(error)


def _unreachable(seen: Seen) -> str | None:
    leader = seen.snapshot.leader(seen.state.tp)
    if not seen.ever_answered:
        return "no broker was reached yet" + "".join(f"; {address}: {cause}" for address, cause in seen.failures.items())
    if leader is not None and leader.address in seen.failures:
        return f"its leader, node {leader.id} at {leader.address}, cannot be reached: {seen.failures[leader.address]}"
    return None


def _leaderless(seen: Seen) -> str | None:
    return "no leader is known" if seen.snapshot.leader(seen.state.tp) is None else None


def _unsettled(seen: Seen) -> str | None:
    return Condition.COMMITTED_UNSETTLED.value if seen.unsettled else None


def _without_position(seen: Seen) -> str | None:
    return None if seen.state.has_position else seen.state.last_error or Condition.NO_POSITION.value


def _in_question(seen: Seen) -> str | None:
    return seen.state.last_error or Condition.POSITION_IN_QUESTION.value if seen.state.status is PartitionStatus.VALIDATING else None


def _open_transaction(seen: Seen) -> str | None:
    state = seen.state
    waits = seen.isolation_level is IsolationLevel.READ_COMMITTED and UNKNOWN_OFFSET < state.last_stable_offset < state.high_watermark
    if not waits or state.position < state.last_stable_offset:
        return None
    return f"records up to {state.high_watermark} are written; a transaction that begins at {state.last_stable_offset} is open"


def _failing(seen: Seen) -> str | None:
    return seen.state.last_error or None


def _at_end(seen: Seen) -> str | None:
    return f"read up to {seen.end}, the end" if UNKNOWN_OFFSET < seen.end <= seen.state.position else None


CHECKS: Sequence[tuple[Condition, Callable[[Seen], str | None]]] = (
    (Condition.FINISHED, _finished),
    (Condition.PAUSED, _paused),
    (Condition.ERROR_WAITS, _error),
    (Condition.RECORDS_WAIT, _buffered),
    (Condition.DOES_NOT_EXIST, _missing),
    (Condition.UNREACHABLE, _unreachable),
    (Condition.NO_LEADER, _leaderless),
    (Condition.COMMITTED_UNSETTLED, _unsettled),
    (Condition.NO_POSITION, _without_position),
    (Condition.POSITION_IN_QUESTION, _in_question),
    (Condition.OPEN_TRANSACTION, _open_transaction),
    (Condition.FAILING, _failing),
    (Condition.AT_END, _at_end),
)
"""Each check returns a text if its condition applies, else None."""


def partition_health(seen: Seen, next_record_ms: int | None, wall_ms: int) -> PartitionHealth:
    """Return the health of one partition. next_record_ms: the timestamp of its next record batch; None if none is buffered.

    wall_ms: now, in ms since the epoch.
    """
    state = seen.state
    found = ((condition, detail) for condition, check in CHECKS if (detail := check(seen)) is not None)
    condition, detail = next(found, (Condition.READING, _reading(seen)))
    lag = max(seen.end - state.position, 0) if state.has_position and seen.end != UNKNOWN_OFFSET else None
    behind_s = 0.0 if lag == 0 else None if next_record_ms is None else max(wall_ms - next_record_ms, 0) / 1000
    return PartitionHealth(state.tp, condition, state.position if state.has_position else None, lag, behind_s, detail)


def _reading(seen: Seen) -> str:
    return "not fetched yet" if seen.end == UNKNOWN_OFFSET else f"being fetched from {seen.state.fetch_offset}, the end is {seen.end}"


def consumer_health(
    partitions: Sequence[PartitionHealth],
    unreachable: Mapping[str, str],
    *,
    rebalancing: bool,
    fenced: KafkaError | None = None,
    absent: tuple[str, ...] = (),
) -> ConsumerHealth:
    """Return the health of the consumer. Its condition is the first one in SEVERITY that a partition or the member has; DOES_NOT_EXIST
    also counts if `absent` has texts. NOT_ASSIGNED if none applies.

    rebalancing, fenced: conditions of the member. absent: see ConsumerHealth.
    """
    of_member = {Condition.FENCED: fenced is not None, Condition.REBALANCING: rebalancing, Condition.DOES_NOT_EXIST: bool(absent)}
    conditions = {one.condition for one in partitions} | {condition for condition, holds in of_member.items() if holds}
    condition = next((one for one in SEVERITY if one in conditions), Condition.NOT_ASSIGNED)
    return ConsumerHealth(condition, tuple(partitions), unreachable, fenced, absent)

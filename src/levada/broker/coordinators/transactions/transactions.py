"""The transaction coordinator: how each request changes a transactional id, and when it is refused (KIP-98, KIP-360, KIP-890).

The caller has checked the coordinator (Placement.check). A request is refused with a BrokerError that has Kafka's error code. A transaction
ends in two steps: end() decides and returns the markers to write, and complete() is called when they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from levada.broker.cluster.features import TRANSACTIONS, Features
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.placement import Placement
from levada.broker.coordinators.transactions.transaction import LAST_USED_EPOCH, NO_ID, EndMarkers, ProducerIdAndEpoch, Transaction
from levada.broker.coordinators.transactions.transaction_records import TransactionRecords
from levada.broker.coordinators.transactions.transaction_states import ENDING, IDLE, Event, State
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError
from levada.types import TopicPartition

BUMPING_VERSION = 2
"""The first transaction.version in which the producer gets a new epoch with each transaction."""


class Decision(NamedTuple):
    """The result of InitProducerId or EndTxn: the producer id and epoch with which the producer continues, -1 if it has to repeat
    InitProducerId; and the markers to write, None if there are none.
    """

    producer: ProducerIdAndEpoch
    markers: EndMarkers | None = None


class Transactions:
    """The transactional ids of a cluster.

    features: the feature levels of the cluster. placement, groups: the placements of transactional ids and of groups. allocate: returns an
    unused producer id.
    """

    def __init__(
        self, settings: BrokerSettings, features: Features, placement: Placement, groups: Placement, allocate: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._features = features
        self._placement = placement
        self._groups = groups
        self._allocate = allocate
        self._known: dict[str, Transaction] = {}
        self._unfinished: list[EndMarkers] = []
        self._kept: TransactionRecords | None = None

    def keep_in(self, kept: TransactionRecords) -> None:
        """Write each change as a record from now on."""
        self._kept = kept

    def keep_all(self, kept: TransactionRecords) -> None:
        """Write all transactional ids that have a producer as records, and each change from now on."""
        self._kept = kept
        for found in self._known.values():
            if found.producer.epoch != NO_ID:
                kept.keep(found)

    def clear(self) -> None:
        """Remove all transactional ids, because the topic __transaction_state was deleted."""
        self._known.clear()
        self._unfinished.clear()

    def restore(self, transactions: Iterable[Transaction]) -> None:
        """Load stored transactional ids. If a transaction was decided but not completed, time_out() returns its markers again, because they
        may have been lost.
        """
        for found in transactions:
            self._known[found.id] = found
            if found.state in ENDING:
                # Not strict: a partition that has the marker accepts the same one again.
                self._unfinished.append(self._end_markers(found, committed=found.state is State.PREPARE_COMMIT, strict=False))

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._known.values())

    def find(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id's state, None if it is unknown."""
        return self._known.get(transactional_id)

    def initialise(self, transactional_id: str, timeout_ms: int, given: ProducerIdAndEpoch | None, now_ms: int) -> Decision:
        """Handle InitProducerId for a transactional id: assign it to a producer and fence its former producer.

        given: the producer id and epoch in the request, if the producer already has them, otherwise None. timeout_ms: the transaction
        timeout. If a transaction is open, the decision is to abort it: the caller writes the markers and answers CONCURRENT_TRANSACTIONS.
        """
        if not transactional_id:
            raise _refusal("a transactional id must not be empty", ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise _refusal(
                f"a timeout of {timeout_ms} ms; transaction.max.timeout.ms={self._settings.transaction_max_timeout_ms}",
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            )
        found = self._known.get(transactional_id)
        if found is None:
            found = self._known[transactional_id] = Transaction(transactional_id, self._allocate(), timeout_ms, now_ms)
        if found.state in ENDING:
            raise _busy(found)
        if given is not None and not _may_continue(found, given):
            raise _fenced(found, given)
        if found.state is State.ONGOING:
            return Decision(ProducerIdAndEpoch(), self._fence(found, now_ms))
        producer, last_epoch = self._next_producer(found, given)
        found.initialise(producer, last_epoch, timeout_ms, now_ms)
        self._keep(found)
        return Decision(producer)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        now_ms: int,
    ) -> None:
        """Add partitions to a producer's transaction. The first partitions begin it."""
        found = self._named(transactional_id)
        # First of all: the producer may know its next id already, but has it only once the markers are written.
        if found.state in ENDING:
            raise _busy(found)
        _check_producer(found, producer)
        found.add(partitions, now_ms)
        self._keep(found)

    def add_group(self, transactional_id: str, producer: ProducerIdAndEpoch, group_id: str, now_ms: int) -> None:
        """Add to a producer's transaction the partition of __consumer_offsets to which a group belongs."""
        self.add(transactional_id, producer, [self._groups.place_of(group_id)], now_ms)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return an error code for each partition: NONE if the partition is in the transaction, otherwise TRANSACTION_ABORTABLE
        (KIP-890).
        """
        found = self._named(transactional_id)
        _check_producer(found, producer)
        if found.state in ENDING:
            raise _busy(found)
        return {name: ErrorCode.NONE if name in found.partitions else ErrorCode.TRANSACTION_ABORTABLE for name in partitions}

    def verify_group(self, transactional_id: str, producer: ProducerIdAndEpoch, group_id: str) -> ErrorCode:
        """Do the same as verify() for the partition of __consumer_offsets to which a group belongs."""
        place = self._groups.place_of(group_id)
        return self.verify(transactional_id, producer, [place])[place]

    def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, committed: bool, bumps: bool, now_ms: int) -> Decision:
        """Handle EndTxn: commit or abort a transaction. If the request repeats one that is completed, there are no markers to write.

        committed: whether to commit. bumps: whether the producer's epoch is raised with each transaction (EndTxn version 5,
        transaction.version 2).
        """
        found = self._named(transactional_id)
        check = _check_end_with_bump if bumps else _check_end
        event = check(found, producer, committed)
        if event is None:
            return Decision(found.producer)
        return self._prepare(found, event, bumps=bumps, now_ms=now_ms)

    def complete(self, markers: EndMarkers, now_ms: int) -> None:
        """Complete a transaction after all its markers were written."""
        found = self._known.get(markers.transactional_id)
        if found is None:
            return  # The topic __transaction_state was deleted meanwhile.
        found.complete(now_ms)
        self._keep(found)

    def time_out(self, node_id: int, now_ms: int) -> list[EndMarkers]:
        """Abort a node's transactions that have been open for longer than their timeout. Returns the markers to write.

        The first call after a restart also returns the markers of transactions that were decided before the restart.
        """
        unfinished = [markers for markers in self._unfinished if self._placement.leader_of(markers.transactional_id) == node_id]
        self._unfinished = [markers for markers in self._unfinished if markers not in unfinished]
        late = [
            found
            for found in self._coordinated_by(node_id)
            if found.state is State.ONGOING and found.started_ms + found.timeout_ms < now_ms
        ]
        return unfinished + [self._fence(found, now_ms) for found in late]

    def abort(self, transactional_id: str, now_ms: int) -> EndMarkers:
        """Abort an open transaction before its timeout. Returns the markers to write. Raises IllegalStateError if none is open or
        the id is unknown.
        """
        return self._fence(self._existing(transactional_id), now_ms)

    def expire(self, node_id: int, now_ms: int) -> None:
        """Remove the transactional ids of a node that were not used for transactional.id.expiration.ms."""
        oldest_ms = now_ms - self._settings.transactional_id_expiration_ms
        for found in self._coordinated_by(node_id):
            if found.state in IDLE and found.updated_ms <= oldest_ms:
                self.forget(found.id, now_ms)

    def forget(self, transactional_id: str, now_ms: int) -> None:
        """Remove a transactional id at once. Raises IllegalStateError if it is unknown, or if its transaction is open or not yet
        completed.
        """
        self._existing(transactional_id).expire(now_ms)
        del self._known[transactional_id]
        if self._kept is not None:
            self._kept.forget(transactional_id)

    def _existing(self, transactional_id: str) -> Transaction:
        found = self._known.get(transactional_id)
        if found is None:
            raise IllegalStateError(f"no producer has initialised transactional id {transactional_id!r}")
        return found

    def _coordinated_by(self, node_id: int) -> list[Transaction]:
        return [found for found in self._known.values() if self._placement.leader_of(found.id) == node_id]

    def _next_producer(self, found: Transaction, given: ProducerIdAndEpoch | None) -> tuple[ProducerIdAndEpoch, int]:
        """Return the producer id and epoch for the InitProducerId response, and the producer's former epoch. If the request is a retry, the
        result is the same as before.
        """
        now = found.producer
        if found.is_exhausted and (given is None or given.epoch == now.epoch):
            return ProducerIdAndEpoch(self._allocate(), 0), NO_ID if given is None else now.epoch
        bumped = now._replace(epoch=now.epoch + 1)
        if given is None:
            return bumped, NO_ID
        if now.epoch == NO_ID or given.epoch == now.epoch:
            return bumped, now.epoch
        if given.epoch == found.last_epoch:
            return now, found.last_epoch
        raise _fenced(found, given)

    def _fence(self, found: Transaction, now_ms: int) -> EndMarkers:
        bumps = self._features.level(TRANSACTIONS) >= BUMPING_VERSION
        found.fence(bump=not bumps)
        markers = self._prepare(found, Event.ABORT, bumps=bumps, now_ms=now_ms).markers
        assert markers is not None
        return markers

    def _prepare(self, found: Transaction, event: Event, *, bumps: bool, now_ms: int) -> Decision:
        next_producer_id = self._allocate() if bumps and found.is_exhausted else NO_ID
        producer, last_epoch = found.producer, found.last_epoch
        if bumps:
            producer, last_epoch = producer._replace(epoch=producer.epoch + 1), producer.epoch
        found.prepare(event, producer, last_epoch, next_producer_id, now_ms)
        self._keep(found)
        return Decision(found.completed_producer, self._end_markers(found, committed=event is Event.COMMIT, strict=bumps))

    def _end_markers(self, found: Transaction, *, committed: bool, strict: bool) -> EndMarkers:
        return EndMarkers(
            transactional_id=found.id,
            producer=found.producer,
            committed=committed,
            partitions=tuple(found.partitions),
            coordinator_epoch=self._placement.epoch_of(found.id),
            strict=strict,
        )

    def _keep(self, found: Transaction) -> None:
        if self._kept is not None:
            self._kept.keep(found)

    def _named(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise _refusal("a transactional id must not be empty", ErrorCode.INVALID_REQUEST)
        found = self._known.get(transactional_id)
        if found is None:
            raise _refusal(f"transactional id {transactional_id!r} is not known", ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found


def _check_end(found: Transaction, producer: ProducerIdAndEpoch, committed: bool) -> Event | None:
    """Check an EndTxn request of version 4 or earlier; return the event that it causes.

    The result is None if the request is a retry and the transaction was already completed with this outcome. Raises the error with which
    the request is refused. committed: whether the request commits.
    """
    _check_producer(found, producer)
    if found.state in ENDING:
        raise _busy(found)
    if found.state is State.ONGOING:
        return Event.COMMIT if committed else Event.ABORT
    if found.state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT):
        return None
    raise _nothing_to_end(found, committed)


def _check_end_with_bump(found: Transaction, producer: ProducerIdAndEpoch, committed: bool) -> Event | None:
    """Check an EndTxn request of version 5 or later; return the event that it causes.

    The result is None if the request is a retry and the transaction was already completed with this outcome. A retry has the epoch from
    before the completion; a request with the current epoch is about the next transaction. Raises the error with which the request is
    refused. committed: whether the request commits.
    """
    if found.state in ENDING:
        raise _busy(found)
    repeats_rotation = (
        found.previous_producer_id == producer.producer_id and producer.epoch == LAST_USED_EPOCH and found.producer.epoch == 0
    )
    if not repeats_rotation:
        _check_producer_id(found, producer)
    is_complete = found.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    repeats = is_complete and (repeats_rotation or found.producer.epoch == producer.epoch + 1)
    if not repeats and producer.epoch != found.producer.epoch:
        raise _fenced(found, producer)
    return _event_of_end(found, committed, repeats)


def _event_of_end(found: Transaction, committed: bool, repeats: bool) -> Event | None:
    if found.state is State.ONGOING:
        return Event.COMMIT if committed else Event.ABORT
    if repeats and found.state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT):
        return None
    if not committed and not repeats:
        return Event.ABORT_NOTHING
    raise _nothing_to_end(found, committed)


def _may_continue(found: Transaction, given: ProducerIdAndEpoch) -> bool:
    """Return whether a producer may get the next epoch. given: the producer id and epoch that it sends."""
    repeats_rotation = given.producer_id == found.previous_producer_id and given.epoch >= LAST_USED_EPOCH
    return found.producer.epoch == NO_ID or given.producer_id == found.producer.producer_id or repeats_rotation


def _check_producer(found: Transaction, producer: ProducerIdAndEpoch) -> None:
    _check_producer_id(found, producer)
    if producer.epoch != found.producer.epoch:
        raise _fenced(found, producer)


def _check_producer_id(found: Transaction, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != found.producer.producer_id:
        raise _refusal(
            f"transactional id {found.id!r} belongs to producer {found.producer.producer_id}, not {producer.producer_id}",
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        )


def _refusal(message: str, code: ErrorCode) -> BrokerError:
    return BrokerError(message, code=code)


def _busy(found: Transaction) -> BrokerError:
    return _refusal(f"transactional id {found.id!r} is in state {found.state}", ErrorCode.CONCURRENT_TRANSACTIONS)


def _fenced(found: Transaction, producer: ProducerIdAndEpoch) -> BrokerError:
    return _refusal(
        f"transactional id {found.id!r} is at epoch {found.producer.epoch}, the producer at {producer.epoch}", ErrorCode.PRODUCER_FENCED
    )


def _nothing_to_end(found: Transaction, committed: bool) -> BrokerError:
    what = "commit" if committed else "abort"
    return _refusal(f"transactional id {found.id!r} in state {found.state} has nothing to {what}", ErrorCode.INVALID_TXN_STATE)

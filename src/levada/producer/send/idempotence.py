"""Idempotence: the producer id and epoch, and the sequence numbers of each partition's batches.

The producer id has these states. Without transactions, the flow initialize() and recover() change them:

    none -> (initialize) -> valid -> (recover: epoch bump) -> valid ... -> (epoch 32767 used up) -> none
    any  -> failed (`error` is set): for example not authorized, fenced, or the broker does not support idempotence
    failed -> none  only if InitProducerId was refused for lack of a permission (`was_denied`): after the records have failed

A batch gets its sequence number when it is first drained. It keeps its number and its bytes in every retry, because an earlier attempt may
have been written. If a batch fails, there are two cases:

* The batch was certainly not written. Its numbers would be a gap before later batches, so the later batches get new numbers under a new
  epoch (`wants_bump`). If no later batch has a number, the numbers of the failed batch are used again.
* The batch may have been written. Then the partition is `unresolved`: no new batch is sent until the batches in flight are done. If a later
  batch has succeeded, there is no gap. Otherwise the epoch is bumped.

A transactional producer gets its producer id from the coordinator (`transactions.manager`), and only the coordinator bumps the epoch. A
batch that fails makes the transaction fail. If the sequence numbers of the batch cannot be used again (`lost_numbers`), the next
transaction needs another epoch.

What can never happen: a batch that may have been written gets another number. The broker could not detect the duplicate then. Such a batch
fails with `persisted: unknown` when its partition is renumbered; Java renumbers it. And no partition is renumbered while a request with
one of its batches is on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Flow, Sleep
from levada.base.permissions import refused
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError, Persisted, ProtocolError, UnsupportedVersionError
from levada.producer.append.partition_queue import PartitionQueue
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.send.sequences import MAX_EPOCH, NO_IDENTITY, ProducerIdentity, Sequences, is_before
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.record.batch import next_sequence, set_producer_state

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class Verdict(Enum):
    """The reaction to an error about the sequence of a batch.

    BUMP: retry the batch after its partition has started at 0 again, under a new epoch; in a transaction, under the same epoch.
    """

    RETRY = "retry"
    BUMP = "bump"
    FAIL = "fail"


class Rule(NamedTuple):
    """A row of a decision table. The first row whose condition holds decides.

    holds: called with the sequences of the partition, the batch, and the log start offset in the response (-1 if unknown).
    """

    why: str
    holds: Callable[[Sequences, ProducerBatch, int], bool]
    verdict: Verdict


def _behind_acked(sequences: Sequences, batch: ProducerBatch, _: int) -> bool:
    return sequences.last_acked >= 0 and is_before(batch.base_sequence, sequences.expected)


def _earlier_missing(sequences: Sequences, batch: ProducerBatch, _: int) -> bool:
    return sequences.unresolved is None and batch.base_sequence != sequences.expected


def _not_next_to_unresolved(sequences: Sequences, batch: ProducerBatch, _: int) -> bool:
    return sequences.unresolved is not None and batch.base_sequence != sequences.unresolved


def _log_start_unknown(_: Sequences, __: ProducerBatch, log_start_offset: int) -> bool:
    return log_start_offset < 0


def _retention_passed(sequences: Sequences, _: ProducerBatch, log_start_offset: int) -> bool:
    return 0 <= sequences.last_acked_offset < log_start_offset


def _always(_: Sequences, __: ProducerBatch, ___: int) -> bool:
    return True


DECISIONS: Mapping[ErrorCode, tuple[Rule, ...]] = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        Rule("later batches were acknowledged: the broker no longer remembers this one", _behind_acked, Verdict.FAIL),
        Rule("an earlier batch is still being retried", _earlier_missing, Verdict.RETRY),
        Rule("an earlier batch may have been written; wait to see", _not_next_to_unresolved, Verdict.RETRY),
        Rule("there is a gap", _always, Verdict.BUMP),
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: (
        Rule("the broker could not look it up", _log_start_unknown, Verdict.RETRY),
        Rule("retention removed the broker's state of this producer", _always, Verdict.BUMP),
    ),
}


TRANSACTIONAL_DECISIONS: Mapping[ErrorCode, tuple[Rule, ...]] = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        Rule("later batches were acknowledged: the broker no longer remembers this one", _behind_acked, Verdict.FAIL),
        Rule("an earlier batch is still being retried", _earlier_missing, Verdict.RETRY),
        Rule("there is a gap, and only the coordinator can bump the epoch", _always, Verdict.FAIL),
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: (
        Rule("the broker could not look it up", _log_start_unknown, Verdict.RETRY),
        Rule("retention removed the broker's state of this producer: the partition begins at 0 again", _retention_passed, Verdict.BUMP),
        Rule("the broker lost its state of this producer", _always, Verdict.FAIL),
    ),
}
"""The rules for a transactional producer: a failed batch makes the transaction fail, and only the coordinator bumps the epoch."""


class Idempotence:
    """The producer id and the sequence numbers of one producer.

    lost_numbers: whether a batch of a transaction has failed under this producer id and epoch, and its sequence numbers cannot be used
    again. error: the error with which the Sender fails all records; None without one. was_denied: whether `error` is a missing permission
    for idempotent writes; then the error is cleared after the records have failed, so that later records can be sent. changes: increased
    when partitions may have become ready to be sent again.
    """

    def __init__(
        self,
        *,
        backoff: ExponentialBackoff,
        may_send: Callable[[ProducerBatch], bool] | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """may_send: returns whether the transaction allows sending a batch now; None for a producer without transactions.

        warn: logs a text about the reason why records are delayed.
        """
        self.is_transactional = may_send is not None
        self.lost_numbers = False
        self._may_send = may_send
        self._decisions = TRANSACTIONAL_DECISIONS if self.is_transactional else DECISIONS
        self.identity = NO_IDENTITY
        self.error: KafkaError | None = None
        self.was_denied = False
        self.waiting_for = ""
        self._backoff = backoff
        self._warn = warn
        self.changes = 0
        self._troubled: dict[PartitionQueue, None] = {}
        self._has_forgotten = False
        self._bump_for_new_topics = False

    # Identity

    @property
    def needs_identity(self) -> bool:
        """Whether to run initialize(): the producer is not transactional, and has neither a producer id nor an error."""
        return not self.identity.is_valid and self.error is None and not self.is_transactional

    def identify(self, identity: ProducerIdentity) -> None:
        """Use a producer id and epoch from the transaction coordinator."""
        self.identity = identity
        self.lost_numbers = False
        self.changes += 1

    def initialize(self) -> Flow[None]:
        """Get a producer id from any broker (InitProducerId). Retries without a time limit; an error that is not retriable sets `error`."""
        attempts = 0
        while True:
            code, cause = yield from self._ask_for_identity()
            self.was_denied = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if code is ErrorCode.NONE:
                return
            if code is not None and not code.retriable:
                self.error = refused(InitProducerIdRequest.NAME, code, "no producer id, so idempotent writes are not possible" + cause, {})
                return
            self._wait_for(cause if code is None else code.name + cause)
            yield Sleep(self._backoff.delay_ms(attempts))
            attempts += 1

    def _ask_for_identity(self) -> Flow[tuple[ErrorCode | None, str]]:
        """Send InitProducerId. Return the error code, or None if the response cannot be decoded, and a text about the error."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS)
        try:
            reply: InitProducerIdResponse = yield Call(request)
        except UnsupportedVersionError:
            return ErrorCode.UNSUPPORTED_VERSION, ": brokers before Kafka 0.11 cannot do that; set enable.idempotence=false for them"
        except ConnectError as error:
            cause = f": {error}"
            # Setting waiting_for here prevents the warning in _wait_for(): the client logs why a connection failed, or calls raise it.
            self.waiting_for = _producer_id(ErrorCode.NETWORK_EXCEPTION.name + cause)
            return ErrorCode.NETWORK_EXCEPTION, cause
        except ProtocolError as error:
            return None, f"an answer that cannot be read: {error}"
        code = ErrorCode.of(reply.error_code)
        if code is ErrorCode.NONE:
            self.identity = ProducerIdentity(reply.producer_id, reply.producer_epoch)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return code, " (enable.idempotence=false does without them)"
        return code, "" if code == reply.error_code else f" (code {reply.error_code})"

    def records_failed(self) -> None:
        """Clear an authorization error after all records have failed with it, because the user may get the permission later."""
        if self.was_denied:
            self.error = None

    def _wait_for(self, cause: str) -> None:
        waiting_for = _producer_id(cause)
        if waiting_for != self.waiting_for:
            self._warn(f"nothing can be sent yet, waiting for {waiting_for}")
        self.waiting_for = waiting_for

    # Deleted topics

    def forget(self, queues: Iterable[PartitionQueue]) -> None:
        """Note that the sequences of these partitions were dropped. They must not start at 0 in this epoch: the broker still has them."""
        self._has_forgotten |= self.has_numbered(queues)

    def has_numbered(self, queues: Iterable[PartitionQueue]) -> bool:
        """Whether any of these partitions has sequence numbers under the current producer id and epoch."""
        return any(queue.sequences.identity == self.identity and queue.sequences.next for queue in queues)

    def topics_began(self) -> None:
        """Note that new topics start at sequence 0. A new epoch is needed if forget() has dropped sequences under the current epoch."""
        self._bump_for_new_topics |= self._has_forgotten

    def topic_recreated(self, queues: Iterable[PartitionQueue]) -> None:
        """Have recover() start these partitions at 0, because the log of a recreated topic has no earlier sequence (KIP-516)."""
        for queue in queues:
            if queue.sequences.identity == self.identity and queue.sequences.next:
                self._want_bump(queue)

    # Numbering, called while draining

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now: the partition's order is kept, and the transaction allows it."""
        queue = batch.queue
        sequences = queue.sequences
        if not self.identity.is_valid or sequences.wants_bump:
            return False
        if self._may_send is not None and not self._may_send(batch):
            return False
        if batch.has_sequence:
            # The batch is a retry. Send only the oldest batch in flight, one at a time, so that sequence numbers arrive in order.
            return queue.in_flight[0] is batch
        # A broker without state of this producer accepts any first sequence number. So after it has refused the first batch, it would
        # accept the second one. Therefore only one batch may be in flight until the first success.
        has_begun = sequences.identity == self.identity and sequences.last_acked >= 0
        return sequences.unresolved is None and (has_begun or not queue.in_flight)

    def number(self, batch: ProducerBatch) -> None:
        """Write the producer id, the epoch and the next sequence number into a sealed batch."""
        sequences = batch.queue.sequences
        if sequences.identity != self.identity:
            sequences.restart(self.identity)
        self._write(batch, sequences.take(batch.records_count))

    def _write(self, batch: ProducerBatch, base_sequence: int) -> None:
        assert batch.data is not None
        batch.producer_id, batch.producer_epoch = batch.queue.sequences.identity
        batch.base_sequence = base_sequence
        set_producer_state(
            batch.data,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=base_sequence,
            is_transactional=self.is_transactional,
        )

    def number_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Give the parts of a split batch the sequence numbers that the batch had."""
        sequence = batch.base_sequence
        for part in parts:
            self._write(part, sequence)
            sequence = next_sequence(sequence, part.records_count)

    # Outcomes

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """Note that the broker has written a batch. base_offset: -1 if unknown."""
        if self._is_current(batch):
            batch.queue.sequences.acked(batch.base_sequence, batch.records_count, base_offset)

    def decide(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> Verdict:
        """Return the reaction to OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID. For Verdict.BUMP, recover() restarts the partition.

        log_start_offset: from the Produce response; -1 if unknown.
        """
        if not self._is_current(batch):
            return Verdict.FAIL
        sequences = batch.queue.sequences
        verdict = next(rule.verdict for rule in self._decisions[code] if rule.holds(sequences, batch, log_start_offset))
        if verdict is Verdict.BUMP:
            self._want_bump(batch.queue)
        return verdict

    def gave_up(self, batch: ProducerBatch, persisted: Persisted) -> None:
        """Update the sequence state of a partition before one of its batches fails. persisted: whether the batch may have been written."""
        if not self._is_current(batch):
            return
        queue, after = batch.queue, next_sequence(batch.base_sequence, batch.records_count)
        if self.is_transactional:
            if persisted is Persisted.NO and after == queue.sequences.next:
                queue.sequences.next = batch.base_sequence
            else:
                self.lost_numbers = True
        elif persisted is Persisted.UNKNOWN:
            if queue.sequences.unresolved is None or is_before(queue.sequences.unresolved, after):
                queue.sequences.unresolved = after
            self._troubled[queue] = None
        elif after == queue.sequences.next:
            queue.sequences.next = batch.base_sequence
        else:
            self._want_bump(queue)

    def _is_current(self, batch: ProducerBatch) -> bool:
        return batch.has_sequence and (batch.producer_id, batch.producer_epoch) == batch.queue.sequences.identity

    def _want_bump(self, queue: PartitionQueue) -> None:
        queue.sequences.wants_bump = True
        self._troubled[queue] = None

    # Recovery, once per poll

    def recover(self) -> list[ProducerBatch]:
        """Resolve partitions. If needed and possible now, bump the epoch, and start partitions at 0 again.

        A transactional producer keeps its epoch. After epoch 32767, the producer needs another producer id first. Return the batches that
        the caller must fail: they may have been written under the old numbers, so they must not be sent again.
        """
        if not self._troubled and not self._bump_for_new_topics:
            return []
        for queue in list(self._troubled):
            self._resolve(queue)
        waiting = [queue for queue in self._troubled if queue.sequences.wants_bump and not queue.on_the_wire]
        if not (waiting or self._bump_for_new_topics) or not self.identity.is_valid:
            return []
        self._has_forgotten = self._bump_for_new_topics = False
        if not self.is_transactional:
            if self.identity.epoch >= MAX_EPOCH:
                self.identity = NO_IDENTITY
                return []
            self.identity = self.identity._replace(epoch=self.identity.epoch + 1)
        return [batch for queue in waiting for batch in self._renumber(queue)]

    def _resolve(self, queue: PartitionQueue) -> None:
        sequences = queue.sequences
        if sequences.unresolved is not None and not queue.in_flight:
            sequences.wants_bump |= sequences.expected != sequences.next
            sequences.unresolved = None
        if sequences.unresolved is None and not sequences.wants_bump:
            del self._troubled[queue]
            self.changes += 1

    def _renumber(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """Start a partition at 0 under the present epoch. Renumber its sent batches that were certainly not written; return the others."""
        del self._troubled[queue]
        self.changes += 1
        queue.sequences.restart(self.identity)
        lost = [batch for batch in queue.in_flight if batch.may_be_persisted]
        for batch in queue.in_flight:
            if batch not in lost:
                self._write(batch, queue.sequences.take(batch.records_count))
        return lost


def _producer_id(cause: str) -> str:
    return f"a producer id ({cause})"

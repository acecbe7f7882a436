"""The transactions of one producer: the calls of the program as flows, and when batches may be sent. `states` explains the states.

The flows run on the engine, under its lock. If a timeout, Ctrl-C or a cancelled task interrupts a call, the table in `states` defines the
next state. The Sender calls may_send() before it drains a batch, and calls failed() when a batch fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from levada.base.flow import Flow, Wait
from levada.base.promise import Promise
from levada.client.network.api_versions import FinalizedFeatures
from levada.error_codes import ErrorCode
from levada.errors import (
    AuthenticationError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    TimeoutError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    broker_error,
)
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.send.sequences import NO_IDENTITY, ProducerIdentity
from levada.producer.transactions import requests
from levada.producer.transactions.coordinator_requests import Answer, CoordinatorRequests
from levada.producer.transactions.marker_pause import MarkerPause
from levada.producer.transactions.outcome import Settled, fenced, not_known, settled_by_abort, told_again
from levada.producer.transactions.reactions import MEANING, TransactionReaction
from levada.producer.transactions.records import Records
from levada.producer.transactions.requests import ANNOUNCING, FEATURE, EndTxn, protocol_for
from levada.producer.transactions.states import ADVICE, Event, State, advice, after
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, TransactionHandle

T = TypeVar("T")

LEAST_CLAMPED_MS = 1000
"""The shortest transaction timeout to request, in ms. A transaction could hardly be ended within a shorter timeout."""
SENDING = frozenset({State.IN_TRANSACTION, State.PREPARING})
OPEN = frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR})
ENDING = frozenset({State.PREPARING, State.COMMITTING, State.ABORTING})
ONGOING = "Ongoing"
"""The state of an open transaction in DescribeTransactions."""
ENDING_BADLY = frozenset({State.ABORTABLE_ERROR, State.ABORTING})


class TransactionManager:
    """The transactions of one producer. start: runs a flow on the engine; called with the flow and the time in ms."""

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        *,
        clamps_timeout: bool,
        coordinator: CoordinatorRequests,
        features: FinalizedFeatures,
        records: Records,
        pause: MarkerPause,
        start: Callable[[Flow[Any], int], Promise[Any]],
    ) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.identity = NO_IDENTITY
        self.protocol = ANNOUNCING
        self._timeout_ms = timeout_ms
        self._clamps_timeout = clamps_timeout
        self._coordinator = coordinator
        self._features = features
        self._records = records
        self._start = start
        self._partitions: dict[TopicPartition, None] = {}
        self._new_partitions: dict[TopicPartition, None] = {}
        self._groups: dict[str, None] = {}
        self._announced_groups: set[str] = set()
        self._announcing: Promise[Any] | None = None
        self._pause = pause
        self._unanswered: EndTxn | None = None
        self._is_forgotten_there = False
        self._may_be_replaced = False
        self._in_doubt = False
        self.error: KafkaError | None = None
        """The error of the running transaction, or the fatal error of the producer."""
        self._handle: TransactionHandle | None = None
        self._committing_offsets = False
        self._call_over: Promise[None] | None = None
        self.on_not_committed: Callable[[], None] = lambda: None
        """Called when it is certain that the open transaction will not be committed. May be called several times for one transaction."""
        records.admit(self.refusal)

    # State

    def _take(self, event: Event, call: str = "") -> None:
        state = after(self.state, event)
        if state is None and self.state is State.FATAL_ERROR:
            raise self.refusal()
        if state is None:
            raise IllegalStateError(
                f"{call or event.value}: the producer of transactional id {self.transactional_id!r} is {self.state.value}; "
                f"{advice(self.state, event)}"
            )
        self.state = state
        if state in ENDING_BADLY or state is State.FATAL_ERROR:
            self.on_not_committed()
        self._records.admit(None if state is State.IN_TRANSACTION else self.refusal)
        if state not in SENDING:
            self._pause.let_go()
        self._tell_call_over()

    def refusal(self) -> KafkaError:
        """Return the error for a record or a call that the current state does not allow."""
        if self.state is State.FATAL_ERROR and self.error is not None:
            return told_again(self.error)
        if self.state in ENDING_BADLY and self.error is not None:
            return self._abortable(self.error)
        return IllegalStateError(
            f"records of transactional id {self.transactional_id!r} are sent within a transaction; the producer is {self.state.value}; "
            f"{ADVICE[self.state]}"
        )

    def _check(self, call: str) -> None:
        """Raise an error unless a transaction is open that can be committed. call: the call of the program, for the error text."""
        if self.state is State.FATAL_ERROR or (self.state is State.ABORTABLE_ERROR and self.error is not None):
            raise self.refusal()
        if self.state is not State.IN_TRANSACTION or self._committing_offsets:
            under_way = "; send_offsets_to_transaction() is under way" if self._committing_offsets else ""
            raise IllegalStateError(
                f"{call}: the producer of transactional id {self.transactional_id!r} is {self.state.value}{under_way}; "
                f"{advice(self.state, Event.COMMIT)}"
            )

    def _abortable(self, cause: KafkaError) -> KafkaError:
        self._records.raised_by_call(cause)
        error = TransactionAbortableError(f"{self._name}: cannot be committed; call abort_transaction(); the cause: {cause}")
        error.__cause__ = cause
        return error

    @property
    def _name(self) -> str:
        if not self.identity.is_valid:
            return f"transactional id {self.transactional_id!r}"
        producer_id, epoch = self.identity
        return f"transaction of {self.transactional_id!r} (producer id {producer_id}, epoch {epoch})"

    # For the Sender

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now: its partition is in the transaction, or the Produce request adds the partition (KIP-890).

        Otherwise the partition waits for AddPartitionsToTxn, which poll() sends. False also while MarkerPause delays batches, and unless a
        transaction is open or being prepared.
        """
        if self.state not in SENDING or self._pause.holds():
            return False
        if batch.tp in self._partitions:
            return True
        if not self.protocol.announces:
            self._partitions[batch.tp] = None
            return True
        self._new_partitions[batch.tp] = None
        return False

    def poll(self, now_ms: int) -> int:
        """Send AddPartitionsToTxn for waiting partitions, and poll the MarkerPause. Return the time of the next poll in ms."""
        if self._new_partitions and self.state in SENDING and (self._announcing is None or self._announcing.done):
            self._announcing = self._start(self._announce(), now_ms)
        return self._pause.poll(now_ms)

    @property
    def gives_up_records(self) -> bool:
        """Whether the Sender must fail batches instead of retrying them, because the transaction is being aborted or has to be."""
        return self.state in ENDING_BADLY

    def failed(self, error: KafkaError) -> None:
        """Note that a record or a request of the transaction has failed permanently, so that the transaction has to be aborted.

        Fails the records that are not in flight. No effect unless a transaction is open or being prepared.
        """
        if self.state not in SENDING:
            return
        self.error = error
        self._take(Event.FAILED)
        self._records.drop_unsent(error)

    def fatal(self, error: KafkaError) -> None:
        """Note a fatal error and fail all records with it. Afterwards the producer can only be closed."""
        if self.state is State.FATAL_ERROR:
            return
        error.fatal = True
        self.error = error
        self._take(Event.FAILED_FOR_EVER)
        self._records.fail_all(error)

    def _announce(self) -> Flow[None]:
        while self._new_partitions and self.state in SENDING:
            wanted = list(self._new_partitions)
            question = requests.add_partitions(self.transactional_id, self.identity, wanted)
            answer = yield from self._coordinator.ask(question, lambda: self.state in SENDING)
            if answer.reaction is not TransactionReaction.DONE:
                self._fail(answer)
                return
            for tp in wanted:
                self._partitions[tp] = None
                self._new_partitions.pop(tp, None)
            self._records.look_again()

    # Calls

    @property
    def needs_initialization(self) -> bool:
        """Whether init_transactions() has to be called first."""
        return self.state is State.UNINITIALIZED

    @property
    def keeps_identity(self) -> bool:
        """Whether begin() sends no request: no transaction is open, and the producer id and epoch can be used for the next one."""
        return self.state is State.READY

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open that no call is ending, so that abort_transaction() can abort it."""
        return self.state in OPEN

    @property
    def holds_anything(self) -> bool:
        """Whether the coordinator may have partitions or groups of the transaction."""
        return bool(self._partitions or self._groups or self._announcing)

    def call(self, call: Callable[[TransactionManager], Flow[T]]) -> Flow[T]:
        """Run one of the calls below. If it times out, the text of the TimeoutError includes the last error of the coordinator."""
        return self._coordinator.explain(call(self))

    def initialize(self) -> Flow[None]:
        """Get a producer id and epoch, after ending a transaction whose EndTxn got no response.

        The first time, this fences any other producer with this transactional.id and aborts its open transaction. Later, it raises
        ProducerFencedError if another producer has taken over the transactional.id.
        """
        self._take(Event.INITIALIZE)
        try:
            yield from self._settle()
            answer = (yield from self._replaced()) or (yield from self._ask_for_identity())
            if answer.reaction is not TransactionReaction.DONE:
                raise self._refused_initialization(answer)
            self._identify(answer.reply)
            self._coordinator.lost = self._may_be_replaced = False
            self._take(Event.INITIALIZED)
        finally:
            if self.state is State.INITIALIZING:
                self._take(self._not_initialized())

    def forget_identity(self) -> Flow[None]:
        """Forget the producer id and epoch, so that init_transactions() fences every other producer, including newer ones.

        If init_transactions() sent the current producer id and epoch, a newer producer would fence this one instead (KIP-360).
        """
        self._take(Event.FORGET, "forget_identity()")
        self.identity = NO_IDENTITY
        self._may_be_replaced = False
        yield from ()

    def _replaced(self) -> Flow[Answer | None]:
        """Return the answer that this producer is fenced if another producer has a transaction open; None if that is not so.

        InitProducerId would answer the same. But a coordinator aborts an open transaction, and fences its producer, before it compares
        epochs: a producer that was paused would take the transactional.id from the one that has replaced it. In Java PRODUCER_FENCED is
        fatal at once. So it is here if the coordinator cannot tell, as before Kafka 3.0.
        """
        if not self._may_be_replaced:
            return None
        answer = yield from self._coordinator.ask(requests.describe(self.transactional_id))
        if answer.reaction is TransactionReaction.DONE and answer.reply.transaction_states[0].transaction_state != ONGOING:
            return None
        return Answer(TransactionReaction.FENCED, ErrorCode.PRODUCER_FENCED, "")

    def _ask_for_identity(self) -> Flow[Answer]:
        while True:
            answer = yield from self._coordinator.ask(requests.initialize(self.transactional_id, self._timeout_ms, self.identity))
            is_too_long = answer.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT and self._timeout_ms > LEAST_CLAMPED_MS
            if not (self._clamps_timeout and is_too_long):
                return answer
            self._timeout_ms = max(self._timeout_ms // 2, LEAST_CLAMPED_MS)

    def _not_initialized(self) -> Event:
        if self._unanswered is not None:
            return Event.ANSWER_LOST
        return Event.NEW_IDENTITY_NEEDED if self.identity.is_valid else Event.NOT_INITIALIZED

    def _refused_initialization(self, answer: Answer) -> KafkaError:
        error = self._error_of(answer, "InitProducerId")
        # In init_transactions() this error is not fatal, because a repeated call may succeed once the permission is granted.
        error.fatal = False
        if answer.reaction is not TransactionReaction.REFUSED:
            self.fatal(error)
        return told_again(error)

    def _settle(self) -> Flow[Settled]:
        """If an EndTxn got no response, abort its transaction, before a new epoch is requested. Return the outcome of the transaction.

        The abort has the producer id, epoch and version of that EndTxn, so the response shows whether a commit was carried out before it.
        Brokers before 4.0 would fence this producer if it requested a new epoch while its transaction is still open.
        """
        ending = self._unanswered
        if ending is None:
            return Settled.ABORTED
        answer = yield from self._coordinator.ask(requests.end(self.transactional_id, ending._replace(commits=False)))
        settled = settled_by_abort(answer.code) if ending.commits else Settled.ABORTED
        self._in_doubt = settled is Settled.UNKNOWN
        if answer.reaction in (TransactionReaction.FATAL, TransactionReaction.REFUSED):
            self.fatal(self._error_of(answer, "EndTxn"))
            raise self.refusal()
        self._unanswered = None
        return settled

    def begin(self) -> Flow[None]:
        """Begin a transaction. If the producer needs a new epoch, for example after an EndTxn without a response, initialize first."""
        if self.state in (State.OUTCOME_UNKNOWN, State.MUST_INITIALIZE_AGAIN):
            yield from self.initialize()
        self._take(Event.BEGIN)
        self._records.begin()
        self.protocol = protocol_for(self._features.level(FEATURE))
        self.error = None
        self._is_forgotten_there = self._in_doubt = False
        self._partitions, self._new_partitions, self._groups, self._announced_groups = {}, {}, {}, set()
        self._announcing = None

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> Flow[None]:
        """Add the offsets of a consumer group to the transaction (TxnOffsetCommit). If a request fails, the transaction has to be aborted.

        No effect without offsets. Raises IllegalStateError unless a transaction is open and no other such call is running, and
        TransactionAbortableError or a fatal error if the transaction has failed, before or because of this call.
        """
        self._check("send_offsets_to_transaction()")
        if not offsets:
            return
        self._committing_offsets, done = True, False
        self._groups[group.group_id] = None
        try:
            if self.protocol.announces and group.group_id not in self._announced_groups:
                yield from self._ask_in_transaction(requests.add_offsets(self.transactional_id, self.identity, group.group_id))
                self._announced_groups.add(group.group_id)
            question = requests.commit_offsets(self.transactional_id, self.identity, group, offsets, self.protocol.offsets)
            yield from self._ask_in_transaction(question)
            done = True
        except TimeoutError as late:
            last = f" (last: {self._coordinator.last})" if self._coordinator.last else ""
            self.failed(TimeoutError(f"the offsets of group {group.group_id!r} were not taken in time: {late}{last}"))
            raise self.refusal() from late
        finally:
            self._committing_offsets = False
            self._tell_call_over()
            if not done:
                # It is unknown whether the offsets are part of the transaction, so the transaction can only be aborted.
                self.failed(TimeoutError(f"the call that sent the offsets of group {group.group_id!r} was broken off"))

    def _ask_in_transaction(self, question: requests.Question) -> Flow[None]:
        answer = yield from self._coordinator.ask(question, lambda: self.state is State.IN_TRANSACTION)
        if answer.reaction is not TransactionReaction.DONE:
            self._fail(answer)
            raise self.refusal()

    def prepare(self, call: str) -> Flow[None]:
        """Wait until all records of the transaction are acknowledged. Raises the error that prevents a commit.

        call: the call of the program, for the error text.
        """
        self._check(call)
        self._take(Event.PREPARE, call)
        delivered = False
        try:
            yield from self._records.deliver()
            delivered = True
        finally:
            if self.state is State.PREPARING and not delivered:
                self._take(Event.NOT_PREPARED)
        if self.state is not State.PREPARING:
            raise self.refusal()

    def commit(self) -> Flow[None]:
        """Wait until all records are acknowledged, then commit. After a commit without a response, send the same EndTxn again.

        Raises TransactionOutcomeUnknownError if the outcome is not known, for example because EndTxn gets no response in time; otherwise
        the error that prevents the commit; and IllegalStateError after an abort without a response.
        """
        ending = self._unanswered
        if ending is not None and not ending.commits:
            raise IllegalStateError(f"commit_transaction(): {self._name} is being aborted; repeat abort_transaction()")
        if ending is None:
            yield from self.prepare("commit_transaction()")
            ending = self._ending(commits=True)
        self._take(Event.COMMIT)
        yield from self._end(ending)

    def abort(self) -> Flow[None]:
        """Abort the transaction. Records that are not acknowledged yet fail with TransactionAbortedError, unless their request succeeds.

        After a commit without a response, find out whether the commit was carried out. Raises IllegalStateError if it was, and
        TransactionOutcomeUnknownError or ProducerFencedError if the coordinator's response does not show it. Without such a
        commit, raises TransactionOutcomeUnknownError if EndTxn gets no response in time. Not allowed while send_offsets() is running.
        """
        if self._unanswered is not None and self._unanswered.commits:
            yield from self._abort_instead()
            return
        if self._committing_offsets:
            self._check("abort_transaction()")
        self._take(Event.ABORT)
        ending = self._unanswered
        if ending is None:
            yield from self._let_go_of_records()
            ending = self._ending(commits=False)
        yield from self._end(ending)

    def _abort_instead(self) -> Flow[None]:
        name, settled = self._name, Settled.UNKNOWN
        self._take(Event.INITIALIZE, "abort_transaction()")
        try:
            settled = yield from self._settle()
        finally:
            if self.state is State.INITIALIZING:
                self._take(Event.ANSWER_LOST if self._unanswered is not None else Event.NEW_IDENTITY_NEEDED)
        if settled is Settled.UNKNOWN:
            # Another producer may have fenced this one. Then InitProducerId fails, and initialize() raises ProducerFencedError.
            yield from self.initialize()
            raise TransactionOutcomeUnknownError(f"abort_transaction(): {name}: {settled.value}; begin_transaction() goes on")
        if settled is Settled.COMMITTED:
            raise IllegalStateError(f"abort_transaction(): {name}: {settled.value}; begin_transaction() goes on")

    def _let_go_of_records(self) -> Flow[None]:
        self._records.drop_unsent(self.error)
        done = False
        try:
            yield from self._records.deliver()
            if self._announcing is not None:
                yield Wait(self._announcing)
            done = True
        finally:
            if self.state is State.ABORTING and not done:
                self._take(Event.NOT_PREPARED)

    def hand_over(self) -> Flow[TransactionHandle]:
        """Wait until all records are acknowledged, and leave the transaction open, so that another process can end it with the handle.

        A second call returns the same handle.
        """
        if self._handle is None:
            yield from self.prepare("detach_transaction()")
            self._take(Event.HAND_OVER)
            self._handle = TransactionHandle(
                self.transactional_id, *self.identity, self.protocol.end[1], tuple(sorted(self._partitions)), tuple(sorted(self._groups))
            )
        return self._handle

    # For close()

    @property
    def last_failure(self) -> str:
        """Text about the last failure of the latest request to a coordinator; "" once that request has a conclusive response."""
        return self._coordinator.last

    @property
    def unanswered(self) -> EndTxn | None:
        """The EndTxn that was sent and has no response yet; None without one."""
        return self._unanswered

    @property
    def is_in_call(self) -> bool:
        """Whether a call is preparing or ending a transaction, sending offsets, or resolving an EndTxn that got no response."""
        settles = self.state is State.INITIALIZING and self._unanswered is not None
        return settles or self.state in ENDING or self._committing_offsets

    def call_over(self) -> Promise[None]:
        """Return a promise that is resolved when is_in_call becomes False."""
        self._call_over = self._call_over or Promise()
        return self._call_over

    def _tell_call_over(self) -> None:
        if self._call_over is not None and not self.is_in_call:
            over, self._call_over = self._call_over, None
            over.resolve(None)

    # EndTxn

    def _ending(self, *, commits: bool) -> EndTxn | None:
        """Return the EndTxn to send; None if no partition and no group was added to the transaction, so that the coordinator has none.

        commits: whether to commit or to abort.
        """
        # Send EndTxn even if the coordinator has just answered that it does not know this producer id. Otherwise the producer would only
        # request a new epoch, which would fence the producer that has the transactional.id now.
        return EndTxn(commits, self.identity, self.protocol.end) if self.holds_anything else None

    def _end(self, ending: EndTxn | None) -> Flow[None]:
        if ending is None:
            self._ended()
            return
        self._pause.end_asked()
        is_repeated = self._unanswered is not None
        self._unanswered = ending
        answer: Answer | None = None
        try:
            answer = yield from self._coordinator.ask(requests.end(self.transactional_id, ending))
        except (TimeoutError, ClosedError) as broken_off:
            raise not_known(self._name, ending, broken_off, self._coordinator.last) from broken_off
        except AuthenticationError as refused:
            # A new connection was refused. An attempt over an earlier one may have been carried out.
            if ending.commits and (is_repeated or self._coordinator.in_doubt):
                raise not_known(self._name, ending, refused, self._coordinator.last) from refused
            raise
        finally:
            if answer is None and self.state is not State.FATAL_ERROR:
                self._take(Event.ANSWER_LOST)
        self._unanswered = None
        self._in_doubt = ending.commits and (is_repeated or self._coordinator.in_doubt) and answer.code is not ErrorCode.INVALID_TXN_STATE
        if answer.reaction is TransactionReaction.DONE:
            if not self.protocol.announces:
                self._identify(answer.reply)
                self._coordinator.lost = False
                self._pause.end_answered()
            self._ended()
        elif ending.commits:
            self._not_committed(answer)
        else:
            yield from self._not_aborted(answer)

    def _ended(self) -> None:
        # Only in the older protocol, a delayed request could affect the next transaction, because the epoch stays the same.
        loses = self.protocol.announces and (self._coordinator.lost or self._records.lost_numbers)
        self._take(Event.NEW_IDENTITY_NEEDED if loses or self._is_forgotten_there else Event.ENDED)

    def _not_committed(self, answer: Answer) -> None:
        """Handle an error response to a commit. Always raises."""
        error = self._error_of(answer, "EndTxn")
        if answer.reaction is TransactionReaction.ABORT_AND_INITIALIZE and self._in_doubt:
            self._take(Event.NEW_IDENTITY_NEEDED)
            raise TransactionOutcomeUnknownError(f"{error}; begin_transaction() goes on with another one") from error
        if answer.reaction in (TransactionReaction.ABORT, TransactionReaction.ABORT_AND_INITIALIZE):
            self._is_forgotten_there |= answer.reaction is TransactionReaction.ABORT_AND_INITIALIZE
            self.error = error
            self._take(Event.FAILED)
        else:
            self.fatal(error)
        raise self.refusal()

    def _not_aborted(self, answer: Answer) -> Flow[None]:
        """Handle an error response to an abort. It is no error if the coordinator has no open transaction, or has aborted it already."""
        if answer.reaction in (TransactionReaction.ABORT, TransactionReaction.ABORT_AND_INITIALIZE, TransactionReaction.FENCED):
            self._take(Event.NEW_IDENTITY_NEEDED)
            if answer.reaction is TransactionReaction.FENCED:
                # The coordinator has aborted the transaction, after transaction.timeout.ms or for another producer. The response to
                # InitProducerId shows which. If it times out, begin() sends it again, because there is nothing left to abort.
                self._may_be_replaced = True
                with suppress(TimeoutError):
                    yield from self.initialize()
            return
        self.fatal(self._error_of(answer, "EndTxn"))
        raise self.refusal()

    # Answers

    def _identify(self, reply: Any) -> None:
        if reply.producer_id >= 0:
            self.identity = ProducerIdentity(reply.producer_id, reply.producer_epoch)
            self._records.identify(self.identity)

    def _fail(self, answer: Answer) -> None:
        """Handle an error response within a transaction. A retriable error has no effect: the state has changed, so the retries ended."""
        if answer.reaction in (TransactionReaction.RETRY, TransactionReaction.FIND_COORDINATOR):
            return
        error = self._error_of(answer, "")
        if answer.reaction in (TransactionReaction.ABORT, TransactionReaction.ABORT_AND_INITIALIZE):
            self._is_forgotten_there |= answer.reaction is TransactionReaction.ABORT_AND_INITIALIZE
            self.failed(error)
        else:
            self.fatal(error)

    def _error_of(self, answer: Answer, request: str) -> KafkaError:
        doubt = Settled.UNKNOWN.value if self._in_doubt else ""
        told = [self._name, request, answer.text]
        if answer.reaction is TransactionReaction.FENCED:
            return fenced(": ".join(filter(None, told)), self._timeout_ms, doubt)
        return broker_error(answer.code, ": ".join(filter(None, [*told, MEANING.get(answer.code), doubt])))

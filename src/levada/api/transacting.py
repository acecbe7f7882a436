"""The transactions of KafkaProducer in both APIs: arguments become flows, which any driver runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from levada.api import arguments
from levada.api.consumer.consuming import Consuming
from levada.api.producing import CallbackHost
from levada.api.record_offsets import RecordsToCommit, offsets_to_commit
from levada.api.sent_offsets import Sending
from levada.api.waiting import run_flow
from levada.base.flow import CallerFlow, Flow
from levada.client.engine import Engine
from levada.config import ProducerConfig
from levada.errors import IllegalStateError, KafkaError
from levada.producer.core import ProducerCore
from levada.producer.transactions.manager import TransactionManager
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TransactionHandle

T = TypeVar("T")


TIMES: Mapping[str, str] = {
    "init_transactions()": "txn-init",
    "begin_transaction()": "txn-begin",
    "send_offsets_to_transaction()": "txn-send-offsets",
    "commit_transaction()": "txn-commit",
    "abort_transaction()": "txn-abort",
}
"""The names under which the durations of calls are counted."""


class Consumer(Protocol):
    """A consumer of the synchronous or the asyncio API."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member for which offsets are committed."""
        ...


class Transacting:
    """The transactional calls of one producer. Timeouts are in seconds; None for the timeout of the enclosing block, or else max.block.ms.

    block: the block whose transaction is open; None without one. sending: the newest transaction, for the offsets of consumers; None before
    the first transaction.
    """

    def __init__(self, config: ProducerConfig, core: ProducerCore, engine: Engine, host: CallbackHost) -> None:
        self._default_s = config.max_block_ms / 1000
        self._transactions = core.transaction_manager
        self._call_times = core.counters.calls
        self.block: Block | None = None
        self.sending: Sending | None = None
        if self._transactions is not None:
            self._transactions.on_not_committed = self._not_committed
        self._engine = engine
        self._host = host

    @property
    def needs_initialization(self) -> bool:
        """Whether the producer is transactional and init_transactions() has to be called before a transaction."""
        return self._transactions is not None and self._transactions.needs_initialization

    @property
    def keeps_identity(self) -> bool:
        """Whether begin() sends no request: no transaction is open, and the producer id and epoch can be used for the next one."""
        return self._transactions is not None and self._transactions.keeps_identity

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that can be aborted."""
        return self._transactions is not None and self._transactions.is_open

    def initialize(self, timeout: float | None) -> CallerFlow[None]:
        """Get a producer id and an epoch (InitProducerId)."""
        return self.run(TransactionManager.initialize, timeout, "init_transactions()")

    def forget_identity(self) -> CallerFlow[None]:
        """Forget the producer id and the epoch."""
        return self.run(TransactionManager.forget_identity, None, "forget_identity()")

    def begin(self, timeout: float | None) -> CallerFlow[None]:
        """Begin a transaction."""
        return self.run(self.begin_one, timeout, "begin_transaction()")

    def begin_one(self, transactions: TransactionManager) -> Flow[None]:
        """Return a flow of the engine that begins a transaction."""
        yield from transactions.begin()
        self.sending = Sending.begin(transactions.transactional_id)

    def send_offsets(
        self, offsets: Mapping[Any, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str, timeout: float | None
    ) -> CallerFlow[None]:
        """Add the offsets of a group to the transaction."""
        wanted, whose = offsets_to_commit(offsets), arguments.group_metadata(group)
        call = "send_offsets_to_transaction()"
        return self.run(lambda transactions: transactions.send_offsets(wanted, whose), timeout, call)

    def commit(self, timeout: float | None) -> CallerFlow[None]:
        """Commit the transaction."""
        self._refuse_in_block("commit_transaction()")
        return self.run(self._commit, timeout, "commit_transaction()")

    def _commit(self, transactions: TransactionManager) -> Flow[None]:
        yield from transactions.commit()
        # On the engine: what breaks the caller's wait off, such as Ctrl-C, comes before both or after both.
        if self.sending is not None:
            self.sending.committed()

    def abort(self, timeout: float | None) -> CallerFlow[None]:
        """Abort the transaction. If a block has begun it, the end of the block then does nothing."""
        return self.run(self._abort, timeout, "abort_transaction()")

    def _abort(self, transactions: TransactionManager) -> Flow[None]:
        yield from transactions.abort()
        self.block = None

    def _not_committed(self) -> None:
        if self.sending is not None:
            self.sending.not_committed()

    def hand_over(self, timeout: float | None) -> CallerFlow[TransactionHandle]:
        """Deliver every record of the transaction and leave it open. Return the handle with which KafkaAdmin ends it, in this or another
        process.

        Consumers' offsets that the transaction has sent stay in doubt.
        """
        self._refuse_in_block("detach_transaction()")
        return self.run(TransactionManager.hand_over, timeout, "detach_transaction()")

    def _refuse_in_block(self, call: str) -> None:
        if self.block is not None:
            raise IllegalStateError(
                f"{call} within `with producer.transaction()`: the block ends the transaction by itself, it commits at its end and aborts "
                "on an exception; to end it by a call, begin it by begin_transaction()"
            )

    def run(self, call: Callable[[TransactionManager], Flow[T]], timeout: float | None, what: str) -> CallerFlow[T]:
        """Run a transactional call on the engine. what: names the call in error messages."""
        if self._host.in_callback:
            raise IllegalStateError(f"{what} in an on_delivery callback would wait for the thread it runs on, for ever")
        if self._transactions is None:
            raise IllegalStateError(f"{what} needs a producer with the option transactional.id")
        if timeout is None and self.block is not None:
            timeout = self.block.timeout
        limit_s = self._default_s if timeout is None else timeout
        with self._call_times.timing(TIMES.get(what, ""), self._host):
            return (yield from run_flow(self._host, self._engine, self._transactions.call(call), limit_s, what))


class Block:
    """A transaction that a `with` block begins and ends. timeout: seconds for each step; None for max.block.ms."""

    def __init__(self, transacting: Transacting, timeout: float | None) -> None:
        self.timeout = timeout
        self._transacting = transacting

    @property
    def is_open(self) -> bool:
        """Whether this block has begun a transaction that was not ended yet, also if enter() was interrupted after beginning it."""
        return self._transacting.block is self

    def enter(self) -> CallerFlow[None]:
        """Begin a transaction. If necessary, initialize the producer first. If this call is interrupted, leave() ends the transaction that
        has begun.
        """
        if self._transacting.needs_initialization:
            yield from self._transacting.initialize(self.timeout)
        yield from self._transacting.run(self._begin, self.timeout, "begin_transaction()")

    def _begin(self, transactions: TransactionManager) -> Flow[None]:
        yield from self._transacting.begin_one(transactions)
        self._transacting.block = self

    def send_offsets(self, consumer: Consumer, records: RecordsToCommit | None) -> CallerFlow[None]:
        """Commit offsets of a consumer within the transaction: after the last of these records; for None, those of consumed_offsets().

        Raises IllegalStateError if no transaction is open, if the consumer has enable.auto.commit, or as Consuming.offsets_to_send() does.
        """
        consuming = getattr(consumer, "_consuming", None)
        if not isinstance(consuming, Consuming):
            raise TypeError(
                f"send_offsets() takes a KafkaConsumer, got {consumer!r}; send_offsets_to_transaction() of the producer takes offsets"
            )
        if consuming.config.enable_auto_commit:
            raise IllegalStateError(
                "send_offsets(): the consumer has enable.auto.commit=true and would commit its offsets also where this transaction, and "
                "with it the records, is aborted; set enable.auto.commit=false"
            )
        sending = self._transacting.sending
        if sending is None or not self._transacting.is_open:
            raise IllegalStateError("send_offsets(): no transaction is open; call it within `with producer.transaction()`")
        group = consumer.group_metadata()
        offsets = consuming.offsets_to_send(sending, records)
        return self._transacting.send_offsets(offsets, group, self.timeout)

    def leave(self, error: BaseException | None) -> CallerFlow[None]:
        """Commit the transaction, or abort it if an exception has ended the block or if it cannot be committed.

        If the abort fails, its error becomes a note of the exception that made the abort necessary. But if that exception is an error of
        the transaction, too, and the abort shows that the producer cannot continue, the error of the abort is raised, because the program
        has to know it first.
        """
        if not self.is_open:
            return
        self._transacting.block = None
        if error is None:
            try:
                yield from self._transacting.commit(self.timeout)
                return
            except BaseException as failed:
                yield from self._abort_after(failed)
                raise
        yield from self._abort_after(error)

    def _abort_after(self, error: BaseException) -> CallerFlow[None]:
        if not self._transacting.is_open:
            return
        try:
            yield from self._transacting.abort(self.timeout)
        except KafkaError as failed:
            if failed.fatal and isinstance(error, KafkaError):
                raise failed from error
            error.add_note(f"the transaction could not be aborted either, which its coordinator does later: {failed}")

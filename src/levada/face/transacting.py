"""A producer's transactions below its faces: arguments become flows, which any driver runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from levada.client.engine import Engine
from levada.config import ProducerConfig
from levada.errors import IllegalStateError, KafkaError
from levada.face import arguments
from levada.face.producing import CallbackHost
from levada.face.waiting import run_flow
from levada.flow import CallerFlow, Flow
from levada.producer.core import ProducerCore
from levada.producer.transactions.transactions import Transactions
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TransactionHandle

T = TypeVar("T")


class Transacting:
    """The transactional calls of one producer. A timeout is in seconds, None for max.block.ms."""

    def __init__(self, config: ProducerConfig, core: ProducerCore, engine: Engine, host: CallbackHost) -> None:
        self._default_s = config.max_block_ms / 1000
        self._transactions = core.transaction
        self._engine = engine
        self._host = host

    def initialize(self, timeout: float | None) -> CallerFlow[None]:
        """Get a producer id and epoch."""
        return self._run(Transactions.initialize, timeout, "init_transactions()")

    def begin(self, timeout: float | None) -> CallerFlow[None]:
        """Begin a transaction."""
        return self._run(Transactions.begin, timeout, "begin_transaction()")

    def send_offsets(
        self, offsets: Mapping[Any, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str, timeout: float | None
    ) -> CallerFlow[None]:
        """Make offsets part of the transaction."""
        wanted, whose = arguments.offsets_to_commit(offsets), arguments.group_metadata(group)
        call = "send_offsets_to_transaction()"
        return self._run(lambda transactions: transactions.send_offsets(wanted, whose), timeout, call)

    def commit(self, timeout: float | None) -> CallerFlow[None]:
        """Commit."""
        return self._run(Transactions.commit, timeout, "commit_transaction()")

    def abort(self, timeout: float | None) -> CallerFlow[None]:
        """Abort."""
        return self._run(Transactions.abort, timeout, "abort_transaction()")

    def hand_over(self, timeout: float | None) -> CallerFlow[TransactionHandle]:
        """Leave the transaction open for another process."""
        return self._run(Transactions.hand_over, timeout, "detach_transaction()")

    # Blocks

    def enter(self, timeout: float | None) -> CallerFlow[None]:
        """Begin a transaction, after initializing the producer where that is needed."""
        if self._transactions is not None and self._transactions.needs_initialization:
            yield from self.initialize(timeout)
        yield from self.begin(timeout)

    def leave(self, error: BaseException | None, timeout: float | None) -> CallerFlow[None]:
        """End the transaction of a block: commit; or abort when an exception ended it, or when it cannot be committed.

        What an abort raises becomes a note of the exception that made it necessary.
        """
        if error is None:
            try:
                yield from self.commit(timeout)
                return
            except BaseException as failed:
                yield from self._abort_after(failed, timeout)
                raise
        yield from self._abort_after(error, timeout)

    def _abort_after(self, error: BaseException, timeout: float | None) -> CallerFlow[None]:
        if self._transactions is None or not self._transactions.is_open:
            return
        try:
            yield from self.abort(timeout)
        except KafkaError as failed:
            error.add_note(f"the transaction could not be aborted either, which its coordinator does later: {failed}")

    def _run(self, call: Callable[[Transactions], Flow[T]], timeout: float | None, what: str) -> CallerFlow[T]:
        if self._host.in_callback:
            raise IllegalStateError(f"{what} in an on_delivery callback would wait for the thread it runs on, for ever")
        if self._transactions is None:
            raise IllegalStateError(f"{what} needs a producer with the option transactional.id")
        limit_s = self._default_s if timeout is None else timeout
        return (yield from run_flow(self._host, self._engine, call(self._transactions), limit_s, what))

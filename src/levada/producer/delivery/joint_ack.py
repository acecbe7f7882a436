"""One AckBuffer sequence for several records. The sequence is acknowledged when all of the records are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from levada.base.promise import Promise
from levada.errors import ForkedError, KafkaError
from levada.producer.append.appender import is_ack
from levada.producer.append.producer_batch import Ack
from levada.producer.delivery.delivery import Delivery


def settle_together(ack: Ack, promises: Iterable[Promise[Any]], first_error: Callable[[], KafkaError | None]) -> None:
    """Once all promises are settled, acknowledge an AckBuffer sequence, or fail it. Called under the engine's lock.

    first_error: called then; returns the error to fail the sequence with, or None to acknowledge it.
    """
    buffer, sequence = ack

    def settle() -> None:
        buffer._settle(sequence, first_error())
        buffer._wake()

    when_settled(promises, settle)


def when_settled(promises: Iterable[Promise[Any]], then: Callable[[], None]) -> None:
    """Call a function once all promises are settled, or at once if they are settled already. Called under the engine's lock."""
    waited_for = list(promises)
    waiting = len(waited_for) + 1

    def one_settled(_: Promise[Any] | None = None) -> None:
        nonlocal waiting
        waiting -= 1
        if waiting == 0:
            then()

    for promise in waited_for:
        promise.on_done(one_settled)
    one_settled()


def settle_all(ack: Ack, sent: Sequence[Delivery]) -> None:
    """Once all records of a send_many() call are done, acknowledge an AckBuffer sequence, or fail it with the first error."""

    def first_error() -> KafkaError | None:
        # Read all errors, not only the first: the AckBuffer reports the failure, so flush() must not warn about the others.
        errors = [error for delivery in sent if (error := delivery.exception()) is not None]
        return errors[0] if errors else None

    settle_together(ack, dict.fromkeys(delivery.promise for delivery in sent), first_error)


def fail_refused(ack: Any, error: BaseException) -> None:
    """Fail the AckBuffer sequence of a send that raises an error, because no outcome would settle the sequence.

    ack: the argument of the call; ignored if it is invalid. If Ctrl-C interrupts the call after the record was appended, the record may
    still be written, but its sequence stays failed.
    """
    if is_ack(ack):
        buffer, sequence = ack
        # In a forked child process, buffer.fail() raises ForkedError. The error of the call itself is raised instead.
        with suppress(ForkedError):
            buffer.fail(sequence, error)


@contextmanager
def failed_if_raised(ack: Any) -> Iterator[None]:
    """Return a context that calls fail_refused() if its `with` block raises. send() does the same inline to save time per record."""
    try:
        yield
    except BaseException as error:
        fail_refused(ack, error)
        raise

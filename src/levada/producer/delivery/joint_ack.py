"""One sequence of an AckBuffer for many records: marked when all of them are written. And what becomes of one whose call raises."""

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
    """Once all promises are settled, mark the sequence, or fail it with the first error. Under the engine's lock."""
    buffer, sequence = ack

    def settle() -> None:
        buffer._settle(sequence, first_error())
        buffer._wake()

    when_settled(promises, settle)


def when_settled(promises: Iterable[Promise[Any]], then: Callable[[], None]) -> None:
    """Call a function, under the engine's lock, once all promises are settled: at once where they are."""
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
    """The same for the records of send_many(). Those of a batch share its promise."""

    def first_error() -> KafkaError | None:
        # All of them are asked: the buffer tells the program of the failure, so flush() need not warn about the others.
        errors = [error for delivery in sent if (error := delivery.exception()) is not None]
        return errors[0] if errors else None

    settle_together(ack, dict.fromkeys(delivery.promise for delivery in sent), first_error)


def fail_refused(ack: Any, error: BaseException) -> None:
    """Fail the sequence of a call that raises: nothing else would ever settle it. ack: what the call was given, right or wrong.

    A record that was taken before, as when Ctrl-C comes in between, may be written all the same; its sequence stays failed.
    """
    if is_ack(ack):
        buffer, sequence = ack
        # In a forked child the call raises ForkedError itself, and the parent's buffer is not touched.
        with suppress(ForkedError):
            buffer.fail(sequence, error)


@contextmanager
def failed_if_raised(ack: Any) -> Iterator[None]:
    """fail_refused() with what the block raises. send() has this written out, as it is called for every record."""
    try:
        yield
    except BaseException as error:
        fail_refused(ack, error)
        raise

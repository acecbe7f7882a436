"""What a TransactionManager does with the producer's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from levada.base.flow import Flow
from levada.errors import KafkaError
from levada.producer.append.record_accumulator import Flushing, RecordAccumulator
from levada.producer.delivery.failed_sends import FailedSends
from levada.producer.send.failures import Failures
from levada.producer.send.idempotence import Idempotence
from levada.producer.send.sequences import ProducerIdentity


class Records(Protocol):
    """The operations on the producer's records that a transaction needs."""

    @property
    def lost_numbers(self) -> bool:
        """Whether records of the transaction have failed whose sequence numbers cannot be used again, so that a new epoch is needed."""
        ...

    def identify(self, identity: ProducerIdentity) -> None:
        """Use this producer id and epoch from now on."""
        ...

    def admit(self, refusal: Callable[[], KafkaError] | None) -> None:
        """Accept records from now on, or refuse them. refusal: makes the error for a refused record; None accepts records."""
        ...

    def begin(self) -> None:
        """Begin a new transaction. Records of later calls belong to it; a send() call that is already running raises IllegalStateError."""
        ...

    def deliver(self) -> Flow[None]:
        """Return when all records so far are acknowledged or have failed, and their callbacks have run."""
        ...

    def drop_unsent(self, cause: KafkaError | None) -> None:
        """Fail the records that are not in flight. cause: the error of the transaction; None if the program aborts it."""
        ...

    def fail_all(self, error: KafkaError) -> None:
        """Fail all records because of a fatal error, also those that are appended later."""
        ...

    def raised_by_call(self, cause: KafkaError) -> None:
        """Do not warn about records that failed with this error, or because of it: a call raises it to the program."""
        ...

    def look_again(self) -> None:
        """Check again whether the partitions that could not be sent can be sent now."""
        ...


class ProducerRecords:
    """Implements Records with the parts of a producer."""

    def __init__(self, accumulator: RecordAccumulator, failed_sends: FailedSends, failures: Failures, idempotence: Idempotence) -> None:
        self._accumulator = accumulator
        self._failed_sends = failed_sends
        self._failures = failures
        self._idempotence = idempotence

    @property
    def lost_numbers(self) -> bool:
        """Whether records of the transaction have failed whose sequence numbers cannot be used again, so that a new epoch is needed."""
        return self._idempotence.lost_numbers

    def identify(self, identity: ProducerIdentity) -> None:
        """Use this producer id and epoch from now on."""
        self._idempotence.identify(identity)

    def admit(self, refusal: Callable[[], KafkaError] | None) -> None:
        """Accept records from now on, or refuse them. refusal: makes the error for a refused record; None accepts records."""
        self._accumulator.admit(refusal)

    def begin(self) -> None:
        """Begin a new transaction. Records of later calls belong to it; a send() call that is already running raises IllegalStateError."""
        self._accumulator.transactions_begun += 1

    def deliver(self) -> Flow[None]:
        """Return when all records so far are acknowledged or have failed, and their callbacks have run."""
        yield from Flushing(self._accumulator, self._failed_sends.promises).run()

    def drop_unsent(self, cause: KafkaError | None) -> None:
        """Fail the records that are not in flight. cause: the error of the transaction; None if the program aborts it."""
        self._accumulator.adopt()
        # The newest batch first: the sequence numbers of an unwritten batch can be used again only if no later number is in use.
        for batch in reversed(list(self._accumulator.incomplete)):
            if not batch.on_the_wire:
                self._failures.abort(batch, cause)

    def fail_all(self, error: KafkaError) -> None:
        """Fail all records because of a fatal error, also those that are appended later."""
        self._idempotence.error = error
        self._accumulator.abort(self._failures.fatal)

    def raised_by_call(self, cause: KafkaError) -> None:
        """Do not warn about records that failed with this error, or because of it: a call raises it to the program."""
        self._accumulator.unread_failures.raised_by_call(cause)

    def look_again(self) -> None:
        """Check again whether the partitions that could not be sent can be sent now."""
        self._accumulator.backlogs.place_parked()

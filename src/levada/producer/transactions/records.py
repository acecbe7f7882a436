"""The producer's records, as its transactions see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from levada.base.flow import Flow
from levada.errors import KafkaError
from levada.producer.append.flushing import Flushing
from levada.producer.append.record_accumulator import RecordAccumulator
from levada.producer.delivery.failed_sends import FailedSends
from levada.producer.send.failures import Failures
from levada.producer.send.idempotence import Idempotence
from levada.producer.send.sequences import ProducerIdentity


class Records(Protocol):
    """What a transaction has to do with the producer's records."""

    @property
    def lost_numbers(self) -> bool:
        """Whether sequence numbers were given to records that failed, so that those that follow would leave a gap."""
        ...

    def identify(self, identity: ProducerIdentity) -> None:
        """Number from now on under that identity."""
        ...

    def admit(self, refusal: Callable[[], KafkaError] | None) -> None:
        """Take records from now on, or refuse them with that error."""
        ...

    def begin(self) -> None:
        """What is taken from now on belongs to another transaction. A send that is under way goes on in none."""
        ...

    def deliver(self) -> Flow[None]:
        """Return when each record taken so far is acknowledged or has failed."""
        ...

    def drop_unsent(self, cause: KafkaError | None) -> None:
        """Fail what is not on its way to a broker. cause: of the transaction's failure, None where the program aborts it."""
        ...

    def fail_all(self, error: KafkaError) -> None:
        """Fail everything: the producer cannot go on."""
        ...

    def raised_by_call(self, cause: KafkaError) -> None:
        """The program is told that records failed with this error."""
        ...

    def look_again(self) -> None:
        """What kept partitions from being sent may be gone."""
        ...


class ProducerRecords:
    """See Records."""

    def __init__(self, accumulator: RecordAccumulator, failed_sends: FailedSends, failures: Failures, idempotence: Idempotence) -> None:
        self._accumulator = accumulator
        self._failed_sends = failed_sends
        self._failures = failures
        self._idempotence = idempotence

    @property
    def lost_numbers(self) -> bool:
        """Whether sequence numbers were given to records that failed."""
        return self._idempotence.lost_numbers

    def identify(self, identity: ProducerIdentity) -> None:
        """Number from now on under that identity."""
        self._idempotence.identify(identity)

    def admit(self, refusal: Callable[[], KafkaError] | None) -> None:
        """Take records from now on, or refuse them."""
        self._accumulator.admit(refusal)

    def begin(self) -> None:
        """Take records of another transaction."""
        self._accumulator.transactions_begun += 1

    def deliver(self) -> Flow[None]:
        """Return when each record taken so far is acknowledged or has failed, its callback included."""
        yield from Flushing(self._accumulator, self._failed_sends).run()

    def drop_unsent(self, cause: KafkaError | None) -> None:
        """Fail what is not on its way to a broker."""
        self._accumulator.adopt()
        # The youngest first: numbers that were certainly not used go to the records that follow.
        for batch in reversed(list(self._accumulator.incomplete)):
            if not batch.on_the_wire:
                self._failures.abort(batch, cause)

    def fail_all(self, error: KafkaError) -> None:
        """Fail everything."""
        self._idempotence.error = error
        self._accumulator.abort(self._failures.fatal)

    def raised_by_call(self, cause: KafkaError) -> None:
        """Do not warn about records that failed with this error, or because of it."""
        self._accumulator.unread_failures.raised_by_call(cause)

    def look_again(self) -> None:
        """Have partitions looked at that could not be sent."""
        self._accumulator.backlogs.place_parked()

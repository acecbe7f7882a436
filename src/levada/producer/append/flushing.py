"""One flush() call: waits for records, and counts those that are not done if the wait is interrupted."""

from __future__ import annotations

from levada.base.flow import Flow, Wait
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.record_accumulator import RecordAccumulator
from levada.producer.delivery.failed_sends import FailedSends


class Flushing:
    """One flush() call. It waits only for records that were appended before this object was made. Used under the engine's lock."""

    def __init__(self, accumulator: RecordAccumulator, failed_sends: FailedSends) -> None:
        self._accumulator = accumulator
        accumulator.adopt()
        # Count now: an open batch may get more records until it is drained.
        self._counts = {batch: batch.unsettled_count for batch in (*accumulator.unsettled, *accumulator.incomplete)}
        self._failed_sends = failed_sends.promises

    def run(self) -> Flow[None]:
        """Return when all records are acknowledged or have failed, and their callbacks have run. No batch waits for linger.ms meanwhile."""
        self._accumulator.flushes += 1
        try:
            for promise in (*self._failed_sends, *(batch.promise for batch in self._counts)):
                yield Wait(promise)
        finally:
            self._accumulator.flushes -= 1

    @property
    def remaining(self) -> int:
        """How many records are not yet acknowledged or failed, or have a callback that has not run."""
        waiting = sum(not promise.done for promise in self._failed_sends)
        return waiting + sum(_remaining(batch, count) for batch, count in self._counts.items())


def _remaining(batch: ProducerBatch, count: int) -> int:
    """Return how many of the first `count` records of a batch are not done. For a split batch, return this for its parts."""
    if batch.promise.done:
        return 0
    if batch.parts is None:
        return count
    return sum(_remaining(part, part.unsettled_count) for part in batch.parts[1])

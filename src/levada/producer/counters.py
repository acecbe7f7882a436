"""The counters behind a producer's metrics. They are updated per batch or per request, not per record, to keep send() fast."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import nan

from levada.base.measure import Measure
from levada.client.driver_interface import Host
from levada.producer.append.producer_batch import ProducerBatch

TIMED: Mapping[str, str] = {
    "metadata-wait": "waited for metadata of a topic",
    "flush": "spent in flush()",
    "txn-init": "spent in init_transactions()",
    "txn-begin": "spent in begin_transaction()",
    "txn-send-offsets": "spent in send_offsets_to_transaction()",
    "txn-commit": "spent in commit_transaction()",
    "txn-abort": "spent in abort_transaction()",
}
"""The names of timed calls, from the names of Java's metrics, and the meaning of each measured time."""


class CallTimes:
    """Measures the duration of calls. took_ms: for each name in TIMED, the total duration of all its calls in ms."""

    def __init__(self) -> None:
        self.took_ms = dict.fromkeys(TIMED, 0)

    @contextmanager
    def timing(self, what: str, host: Host) -> Iterator[None]:
        """Return a context that adds the duration of the `with` block to took_ms. what: the name in TIMED; other names are ignored."""
        began_ms = host.now_ms()
        try:
            yield
        finally:
            if what in TIMED:
                with host.lock:
                    self.took_ms[what] += host.now_ms() - began_ms


class TopicCounters:
    """The counters of one topic, or of all topics.

    records: records sent, counted again when they are retried. retries, errors: records retried, records failed. bytes: bytes of the sent
    batches, compressed. compression: compressed size of a batch over its uncompressed size; 1 for a batch from seal_arrow().
    """

    def __init__(self) -> None:
        self.records = Measure()
        self.bytes = Measure()
        self.compression = Measure()
        self.retries = Measure()
        self.errors = Measure()


class ProducerCounters:
    """The counters of a producer, in total and by topic. now_ms: the time at which a method counts; Sender.poll() sets it."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.whole = TopicCounters()
        self.topics: dict[str, TopicCounters] = {}
        self.queue_time = Measure()
        self.records_size = Measure()
        self.largest_record = Measure()
        self.records_per_request = Measure()
        self.splits = Measure()
        self.throttle_time = Measure()
        self.waits_ns = Measure()
        self.exhausted = Measure()
        self.calls = CallTimes()

    def sent(self, batches: Collection[ProducerBatch]) -> None:
        """Count a Produce request with these batches."""
        now_ms = self.now_ms
        self.records_per_request.note(sum(batch.records_count for batch in batches), now_ms)
        for batch in batches:
            if batch.attempts == 1:
                self.queue_time.note(now_ms - batch.created_ms, now_ms)
            self.records_size.note(batch.records_size, now_ms)
            self.largest_record.note(batch.largest_record, now_ms)
            for counters in (self.whole, self._topic(batch.tp.topic)):
                counters.records.note(batch.records_count, now_ms)
                counters.bytes.note(batch.size, now_ms)
                counters.compression.note(batch.compression_ratio, now_ms)

    def retried(self, batch: ProducerBatch) -> None:
        """Count a retry of a batch."""
        self._note("retries", batch.tp.topic, batch.records_count)

    def failed(self, topic: str, records_count: int) -> None:
        """Count failed records."""
        self._note("errors", topic, records_count)

    def split(self) -> None:
        """Count the split of a batch that was too large for the broker."""
        self.splits.note(1, self.now_ms)

    def throttled(self, throttle_ms: int) -> None:
        """Count the throttle time of a Produce response, in ms; call this for 0 as well."""
        self.throttle_time.note(throttle_ms, self.now_ms)

    def waited(self, waited_ms: int, *, without_effect: bool) -> None:
        """Count the time, in ms, that a call has waited for free buffer.memory. without_effect: whether the wait ended with a timeout."""
        self.waits_ns.note(waited_ms * 1_000_000, self.now_ms)
        if without_effect:
            self.exhausted.note(1, self.now_ms)

    def record_size(self, now_ms: int) -> float:
        """Return the average size of the recently sent records in bytes; nan if no record was sent.

        Sizes are uncompressed, except those of batches from seal_arrow(), which count as they were encoded.
        """
        records = self.whole.records.rate(now_ms)
        return self.records_size.rate(now_ms) / records if records else nan

    def forget(self, topics: Iterable[str]) -> None:
        """Drop the counters of topics that the producer does not use any more."""
        for topic in topics:
            self.topics.pop(topic, None)

    def _note(self, what: str, topic: str, records_count: int) -> None:
        for counters in (self.whole, self._topic(topic)):
            getattr(counters, what).note(records_count, self.now_ms)

    def _topic(self, topic: str) -> TopicCounters:
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = TopicCounters()
        return counters

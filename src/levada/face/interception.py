"""The interceptors of one producer, called so that nothing they raise reaches a record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from levada.interceptors import ProducerInterceptor, ProducerRecord
from levada.producer.producer_batch import DeliveryCallback
from levada.producer.record_accumulator import ToSend
from levada.types import NO_TIMESTAMP, UNKNOWN_OFFSET, RecordMetadata

log = logging.getLogger(__name__)

NO_PARTITION = -1


class Interceptors:
    """See the module's text."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return what the interceptors make of a record, one after the other."""
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send() returned {changed!r}, not a ProducerRecord")
                record = changed
            except Exception:
                log.exception("%s: the interceptor %r failed; the record is sent without it", record.topic, interceptor)
        return record

    def before(self, callback: DeliveryCallback | None, headers: Any) -> DeliveryCallback:
        """Return a callback for a record that tells the interceptors of its outcome, and then the user's own callback."""

        def told(metadata: RecordMetadata, error: Exception | None) -> None:
            # SystemExit too, as of a callback: nothing that one raises may end the thread that serves all records.
            self._acknowledge(metadata, error, headers, held=BaseException)
            if callback is not None:
                callback(metadata, error)  # type: ignore[arg-type]

        return told

    def on_send_error(self, record: ProducerRecord | ToSend, error: Exception) -> None:
        """Tell the interceptors of a record that send() raised an error for (K6). In the thread of send(): Ctrl-C comes out of it."""
        partition = record.partition if isinstance(record.partition, int) else NO_PARTITION
        metadata = RecordMetadata(record.topic, partition, UNKNOWN_OFFSET, NO_TIMESTAMP)
        self._acknowledge(metadata, error, record.headers, held=Exception)

    def _acknowledge(self, metadata: RecordMetadata, error: Exception | None, headers: Any, *, held: type[BaseException]) -> None:
        """Call all of them. held: what is logged when one raises it; anything else ends the call."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error, headers)
            except held:
                log.exception("%s-%s: the interceptor %r failed", metadata.topic, metadata.partition, interceptor)

# cython: annotation_typing=False, wraparound=False
"""KafkaProducer.send(), the one call of the blocking API that is made for every record.

A [c] module: compiled, its arguments are sorted out in C. A frame of the interpreter, and its look-ups of keyword defaults, would take a
fifth of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Generic, Never

from levada.api.keywords import unknown_keyword
from levada.api.producing import Producing
from levada.producer.append.producer_batch import Ack, DeliveryCallback
from levada.producer.delivery.delivery import Delivery
from levada.producer.delivery.joint_ack import fail_refused
from levada.serialization import K_in, V_in
from levada.sync.driver import Driver
from levada.types import HeadersIn


class Sending(Generic[K_in, V_in]):
    """The part of KafkaProducer that accepts records.

    _append: adds a record to its batch without waiting. It returns None if that is not possible, for example because metadata or memory is
    missing. Then send() calls the slower code that can wait.
    """

    _append: Callable[..., Delivery | None]
    _driver: Driver
    _producing: Producing

    def send(
        self,
        topic: str,
        value: V_in | None = None,
        key: K_in | None = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: HeadersIn | None = None,
        on_delivery: DeliveryCallback | None = None,
        ack: Ack | None = None,
        **unknown: Never,
    ) -> Delivery:
        """Send a record; return a handle for the result.

        value, key: bytes-like, str (as UTF-8), None, or any type that the configured serializer takes. partition: None chooses it by the
        key; records without a key are spread. timestamp: milliseconds since the epoch or an aware datetime, default now. headers: a
        mapping, or pairs, of a name and bytes, str (as UTF-8) or None. on_delivery: called with (RecordMetadata, error or None) on the
        client's own thread; it must be quick. ack: an AckBuffer and the sequence that its put() returned. The sequence is marked when the
        record is written, or failed when it is not, before on_delivery is called. If send() raises, the sequence has failed with the same
        error.

        Waits, up to max.block.ms, only for metadata of a new topic, for a partition that does not exist yet, and for room in buffer.memory;
        a serializer may also wait for its schema registry. In a callback it does not wait for metadata or room: the record fails at once.
        If the cluster refuses the record or a limit is exceeded, the handle and the callback report the error: MetadataTimeout,
        BufferExhaustedError, RecordTooLargeError, UnknownTopicOrPartitionError, DeliveryTimeout, ...

        Raises for wrong arguments SerializationError, InvalidTopicError, ValueError and TypeError, and ClosedError after close(). With a
        transactional.id, IllegalStateError while no transaction is open; TransactionAbortableError when the transaction cannot be committed
        any more, with the first error as the cause: call abort_transaction(); ProducerFencedError and other errors that are `fatal`: close
        this producer. A record whose send() raises was not taken (`persisted` "no").
        """
        try:
            if unknown:
                raise unknown_keyword(self.send, unknown)
            delivery = self._append(topic, value, key, partition, timestamp, headers, on_delivery, ack)
            if delivery is None:
                record = self._producing.record(topic, value, key, partition, timestamp, headers, on_delivery, ack)
                delivery = self._producing.try_append(record)
                if delivery is None:
                    delivery = self._driver.call(self._producing.send(record))
        except BaseException as error:
            fail_refused(ack, error)
            raise
        return delivery

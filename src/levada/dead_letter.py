"""Dead-letter topics, for records that a program cannot process, as in Kafka Connect (KIP-298) and Kafka Streams (KIP-1034)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from levada.base.text import as_text
from levada.errors import RecordDeserializationError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord

HEADER_PREFIX = "__levada.errors."
"""The prefix of the headers that describe a dead letter, like `__connect.errors.` of Connect."""
MAX_HEADER_BYTES = 4096
"""The most bytes of one such header. An exception's text may quote its record, and would make the dead letter too large for its topic."""


class DeadLetter(NamedTuple):
    """A dead-letter topic. The consumer writes records there, and continues after a record once it is acknowledged.

    It gets the records that do not deserialize (`on_decode_error`), and those that are rejected (`consumer.acks(dead_letter=...)`,
    `consumer.process(...)`).

    producer: a KafkaProducer of the same API as the consumer, blocking or asyncio, without serializers and without transactional.id. The
    program closes it after the consumer. topic: gets the records with unchanged key, value and headers. These headers are added as text:
    `__levada.errors.topic`, `.partition`, `.offset` and `.timestamp` of the record; `.part` ("key" or "value") if it does not deserialize,
    or `.attempts` if it is rejected; `.exception`, the type of the exception if there is one; and `.message`. Each header is limited to
    4096 bytes. If a record is so large that not all headers fit into the producer's max.request.size, the last ones are omitted.
    """

    producer: Any
    topic: str


def letter(topic: str, error: RecordDeserializationError) -> ProducerRecord:
    """Return the dead letter for a record that does not deserialize."""
    cause = error.__cause__ or error
    return _letter(topic, error.record, {"part": error.part, "exception": type(cause).__qualname__, "message": cause})


def letter_of_rejected(topic: str, record: AnyRecord, reason: BaseException | str, attempts: int) -> ProducerRecord:
    """Return the dead letter for a record that a program has rejected after `attempts` deliveries."""
    why = {"exception": type(reason).__qualname__} if isinstance(reason, BaseException) else {}
    return _letter(topic, record, {"attempts": attempts, **why, "message": reason})


def _letter(topic: str, record: AnyRecord, why: Mapping[str, object]) -> ProducerRecord:
    # The dead letter has a new timestamp: with that of the record, the topic's retention could delete it at once.
    told = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **why,
    }
    ours = [(HEADER_PREFIX + name, _cut(as_text(what))) for name, what in told.items()]
    return ProducerRecord(topic, record.raw_value, record.raw_key, headers=[*record.headers, *ours])


def _cut(text: str) -> bytes:
    """Return a header's text in UTF-8. If it is too long, its end is replaced by its length."""
    data = text[: MAX_HEADER_BYTES + 1].encode("utf-8", "backslashreplace")
    if len(data) <= MAX_HEADER_BYTES:
        return data
    end = f"... ({len(text)} characters)".encode()
    return data[: MAX_HEADER_BYTES - len(end)].decode("utf-8", "ignore").encode() + end

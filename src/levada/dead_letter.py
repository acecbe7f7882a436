"""Dead-letter topics for records that a program cannot process, as in Kafka Connect (KIP-298) and Kafka Streams (KIP-1034)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from levada.base.text import as_text
from levada.errors import RecordDeserializationError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord

HEADER_PREFIX = "__levada.errors."
"""The prefix of the headers that describe why a record is in a dead-letter topic, like `__connect.errors.` in Kafka Connect."""
MAX_HEADER_BYTES = 4096
"""The largest size of one such header in bytes. Without a limit, the text of an exception could make the copy too large for its topic."""


class DeadLetter(NamedTuple):
    """A dead-letter topic. The consumer copies records to this topic, and continues after a record when its copy is acknowledged.

    The consumer copies records that cannot be deserialized (`on_decode_error`), and records that the program rejects
    (`consumer.acks(dead_letter=...)`, `consumer.process(...)`).

    producer: a KafkaProducer of the same API as the consumer, blocking or asyncio, without serializers and without transactional.id. The
    program closes the producer after the consumer. topic: the name of the topic. The copy has the key, value and headers of the record,
    and these headers as text: `__levada.errors.topic`, `.partition`, `.offset` and `.timestamp` of the record; `.part` ("key" or "value")
    if the record cannot be deserialized, or `.attempts` if it is rejected; `.exception`, the type of the exception if there is one; and
    `.message`. Each of these is limited to 4096 bytes. If they do not all fit into the producer's max.request.size, the last ones are
    omitted.
    """

    producer: Any
    topic: str


def letter(topic: str, error: RecordDeserializationError) -> ProducerRecord:
    """Return the record to send to a dead-letter topic for a record that cannot be deserialized."""
    cause = error.__cause__ or error
    return _letter(topic, error.record, {"part": error.part, "exception": type(cause).__qualname__, "message": cause})


def letter_of_rejected(topic: str, record: AnyRecord, reason: BaseException | str, attempts: int) -> ProducerRecord:
    """Return the record to send to a dead-letter topic for a record that the program has rejected after `attempts` deliveries."""
    why = {"exception": type(reason).__qualname__} if isinstance(reason, BaseException) else {}
    return _letter(topic, record, {"attempts": attempts, **why, "message": reason})


def _letter(topic: str, record: AnyRecord, why: Mapping[str, object]) -> ProducerRecord:
    # The copy does not keep the record's timestamp, because retention could then delete the copy at once.
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
    """Return the text of a header as UTF-8. If it exceeds MAX_HEADER_BYTES, replace the end of the text by a note about its length."""
    data = text[: MAX_HEADER_BYTES + 1].encode("utf-8", "backslashreplace")
    if len(data) <= MAX_HEADER_BYTES:
        return data
    end = f"... ({len(text)} characters)".encode()
    return data[: MAX_HEADER_BYTES - len(end)].decode("utf-8", "ignore").encode() + end

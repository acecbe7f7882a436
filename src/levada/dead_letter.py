"""Where a consumer puts records that nobody can use: a dead-letter topic, as Kafka Connect (KIP-298) and Streams (KIP-1034) have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from levada.base.text import as_text
from levada.errors import RecordDeserializationError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord

HEADER_PREFIX = "__levada.errors."
"""Headers that say where a dead letter comes from begin so, as Connect's with `__connect.errors.`."""
MAX_HEADER_BYTES = 4096
"""What one of these headers may take. An exception's text may quote its record, which would make the letter too large for its topic."""


class DeadLetter(NamedTuple):
    """Write records to a topic, and go on behind them once they are acknowledged there: those that do not deserialize (`on_decode_error`),
    and those that are rejected (`consumer.acks(dead_letter=...)`, `consumer.process(...)`).

    producer: a KafkaProducer of the consumer's own kind, blocking or asyncio, without serializers and without transactional.id; the program
    closes it, after the consumer. topic: where the records go, with key, value and headers as they came, and headers
    `__levada.errors.topic`, `.partition`, `.offset` and `.timestamp` (of the record), `.part` ("key" or "value", of one that does not
    deserialize) or `.attempts` (of one that is rejected), `.exception` (its type, where there is one) and `.message`, all as text. Each is
    cut to 4096 bytes; of a record so large that they do not fit into the producer's max.request.size, the last of them are left out.
    """

    producer: Any
    topic: str


def letter(topic: str, error: RecordDeserializationError) -> ProducerRecord:
    """Return what is written to a dead-letter topic for a record that does not deserialize."""
    cause = error.__cause__ or error
    return _letter(topic, error.record, {"part": error.part, "exception": type(cause).__qualname__, "message": cause})


def letter_of_rejected(topic: str, record: AnyRecord, reason: BaseException | str, attempts: int) -> ProducerRecord:
    """Return what is written to a dead-letter topic for a record that a program has rejected after so many attempts."""
    why = {"exception": type(reason).__qualname__} if isinstance(reason, BaseException) else {}
    return _letter(topic, record, {"attempts": attempts, **why, "message": reason})


def _letter(topic: str, record: AnyRecord, why: Mapping[str, object]) -> ProducerRecord:
    # Its timestamp is that of the writing: with the record's own, the topic's retention could delete it at once.
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
    """Return a header's text as UTF-8, its end replaced by its length where it is too long."""
    data = text[: MAX_HEADER_BYTES + 1].encode("utf-8", "backslashreplace")
    if len(data) <= MAX_HEADER_BYTES:
        return data
    end = f"... ({len(text)} characters)".encode()
    return data[: MAX_HEADER_BYTES - len(end)].decode("utf-8", "ignore").encode() + end

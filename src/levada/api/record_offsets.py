"""The offsets to commit for records that a program passes to commit(): of each partition the offset after the last of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from levada.base.text import shown
from levada.types import AnyRecord, ConsumerRecord, OffsetAndMetadata, ShareRecord, TopicPartition

OffsetsToCommit: TypeAlias = Mapping[TopicPartition, int | OffsetAndMetadata]
RecordsToCommit: TypeAlias = ConsumerRecord[Any, Any] | Sequence[ConsumerRecord[Any, Any]] | Iterator[ConsumerRecord[Any, Any]]
"""Not any Iterable, which a mapping is, too: mypy could not infer the type of one that is written out beside it."""


class Span(NamedTuple):
    """Records of one partition. first: the lowest of their offsets. after: the offset to commit after the last of them."""

    first: int
    after: OffsetAndMetadata


def spans(records: Any, call: str) -> dict[TopicPartition, Span]:
    """Return the lowest offset of records and the offset to commit after them, by partition; {} without records.

    records: one ConsumerRecord, or an iterable of them. Raises TypeError for anything else.
    """
    if isinstance(records, ConsumerRecord):
        records = (records,)
    # A consumer is iterable, too, and would be read on.
    elif isinstance(records, str | bytes) or hasattr(records, "poll") or not isinstance(records, Iterable):
        raise _no_record(records, call)
    found: dict[TopicPartition, Span] = {}
    for record in records:
        if not isinstance(record, ConsumerRecord) or isinstance(record, ShareRecord):
            raise _no_record(record, call)
        tp = TopicPartition(record.topic, record.partition)
        span = found.get(tp)
        if span is None:
            found[tp] = Span(record.offset, after(record))
        elif record.offset >= span.after.offset:
            found[tp] = Span(span.first, after(record))
        elif record.offset < span.first:
            found[tp] = Span(record.offset, span.after)
    return found


def after(record: AnyRecord) -> OffsetAndMetadata:
    """Return the offset to commit after a record, with the record's leader epoch."""
    return OffsetAndMetadata(record.offset + 1, record.leader_epoch)


def _no_record(given: Any, call: str) -> TypeError:
    if isinstance(given, ShareRecord):
        return TypeError(f"{call}: a record of a share group has no offset to be committed; acknowledge() of its consumer takes it")
    offsets = ", or offsets as {TopicPartition(topic, partition): offset}" if call.startswith("commit") else ""
    return TypeError(f"{call} takes one record or several, as poll() or a loop over the consumer returns them{offsets}; got {shown(given)}")

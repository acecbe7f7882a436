"""The offsets that a program commits: those that it names, or those after the last records of each partition that it passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from levada.api.arguments import topic_partition, whole
from levada.base.text import shown
from levada.types import NO_LEADER_EPOCH, AnyRecord, ConsumerRecord, OffsetAndMetadata, ShareRecord, TopicPartition

MAX_OFFSET = 2**63 - 1
MAX_LEADER_EPOCH = 2**31 - 1
MAX_METADATA_SIZE = 2**15 - 1

OffsetsToCommit: TypeAlias = Mapping[TopicPartition, int | OffsetAndMetadata]
RecordsToCommit: TypeAlias = ConsumerRecord[Any, Any] | Sequence[ConsumerRecord[Any, Any]] | Iterator[ConsumerRecord[Any, Any]]
"""Not any Iterable, because a mapping is iterable, too: mypy could not infer the type of a dict that is passed as `offsets`."""


def offsets_to_commit(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit as OffsetAndMetadata, by partition. An int is an offset without leader epoch and metadata.

    Raises TypeError, and ValueError for numbers and metadata that no request can contain.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets are a mapping of TopicPartition to an offset or OffsetAndMetadata, got {offsets!r}")
    return {topic_partition(tp): _committable(tp, at) for tp, at in offsets.items()}


def _committable(tp: Any, at: Any) -> OffsetAndMetadata:
    given = at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(whole(f"the offset of {tp}", at))
    offset, leader_epoch = whole(f"the offset of {tp}", given.offset), whole(f"the leader epoch of {tp}", given.leader_epoch)
    if not 0 <= offset <= MAX_OFFSET:
        raise ValueError(f"the offset of {tp} is that of the next record to read, from 0 to 2**63 - 1; got {offset}")
    if not NO_LEADER_EPOCH <= leader_epoch <= MAX_LEADER_EPOCH:
        raise ValueError(f"the leader epoch of {tp} is a number from 0 to 2**31 - 1, or -1 for none; got {leader_epoch}")
    _check_metadata(tp, given.metadata)
    return OffsetAndMetadata(offset, leader_epoch, given.metadata)


def _check_metadata(tp: Any, metadata: Any) -> None:
    if not isinstance(metadata, str):
        raise TypeError(f"the metadata of {tp} is text, got {metadata!r}")
    try:
        size = len(metadata.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"the metadata of {tp} cannot be written as UTF-8: {error}") from None
    if size > MAX_METADATA_SIZE:
        raise ValueError(
            f"the metadata of {tp} takes {size:,} bytes; requests carry at most {MAX_METADATA_SIZE:,}, and brokers take "
            "offset.metadata.max.bytes, 4,096 by default"
        )


class Span(NamedTuple):
    """Records of one partition. first: their lowest offset. after: the offset to commit after their last one."""

    first: int
    after: OffsetAndMetadata


def spans(records: Any, call: str) -> dict[TopicPartition, Span]:
    """Return the Span of the records of each partition; {} without records. call: the name of the called method, for error messages.

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

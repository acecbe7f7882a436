"""Offsets by time, and the two ends of a log (ListOffsets; OffsetFetcher in Java).

All leaders are asked at once, with one request for all partitions of a leader. Retriable errors are repeated at the current leader, until
everything is found or the call's time is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import Call, Flow, Wait
from levada.client.metadata.known_topics import check_exists
from levada.client.metadata.metadata import Metadata
from levada.client.requests.fan_out import Answer, FanOut, Spawn, Whom
from levada.client.requests.partition_answer import CONSUMER_REPLICA_ID, Asked, Part, PartitionAnswer, partition_answer
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.consumer.positions.auto_offset_reset import ByDuration, ResetTo, asked_time
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, TimeoutError
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from levada.types import NO_TIMESTAMP, UNKNOWN_OFFSET, IsolationLevel, OffsetAndTimestamp, OffsetSpec, TopicPartition

FIRST_VERSION_BY_TIME = 1
FIRST_VERSION_WITH_ISOLATION = 2

ON_LIST_OFFSETS_ERROR = RetryPolicy(
    {
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Reaction.NOTHING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.RAISE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Reaction.RAISE,
        ErrorCode.INVALID_TOPIC_EXCEPTION: Reaction.RAISE,
        ErrorCode.INVALID_REQUEST: Reaction.RAISE,
        ErrorCode.UNSUPPORTED_VERSION: Reaction.RAISE,
    },
    otherwise=Reaction.REFRESH,
)
"""Every other error code is retried, whether it is known as retriable or not."""


OffsetsAnswer: TypeAlias = PartitionAnswer[OffsetAndTimestamp | None]
"""None if there is no such offset."""


def ask_leader(
    node_id: Whom, wanted: Mapping[TopicPartition, int], metadata: Metadata, isolation_level: IsolationLevel
) -> Flow[OffsetsAnswer]:
    """Ask a leader for the first offset at or after a time, per partition; -1 means the end of the log, -2 its beginning.

    With read_committed, the end of the log is the last stable offset. Raises UnsupportedVersionError if the broker is too old: before
    0.10.1 for a time, before 0.11 for read_committed.

    wanted: the time in ms since the epoch for each partition. None is found for a partition without such a record.
    """
    oldest = _oldest_version(wanted, isolation_level)
    try:
        response = yield Call(_request(wanted, metadata, isolation_level), node=node_id, min_version=oldest)
    except ConnectError as fault:
        return Answer.missing(wanted, str(fault))
    what = Asked(ListOffsetsRequest.NAME, "list offsets")
    return partition_answer(f"node {node_id}", wanted, _parts(response), ON_LIST_OFFSETS_ERROR, what)


def ask_where_to_begin(
    node_id: Whom, wanted: Mapping[TopicPartition, ResetTo], metadata: Metadata, isolation_level: IsolationLevel, wall_ms: int
) -> Flow[OffsetsAnswer]:
    """Ask a leader for the offsets of auto.offset.reset. wall_ms: the present time in ms since the epoch.

    For by_duration, a partition without a record since that time gets the end of its log.
    """
    times = {tp: asked_time(to, wall_ms) for tp, to in wanted.items()}
    answer = yield from ask_leader(node_id, times, metadata, isolation_level)
    late = {tp: int(OffsetSpec.LATEST) for tp, at in answer.found.items() if at is None and isinstance(wanted[tp], ByDuration)}
    if not late:
        return answer
    ends = yield from ask_leader(node_id, late, metadata, isolation_level)
    found = {tp: at for tp, at in answer.found.items() if tp not in late} | ends.found
    return Answer(found, answer.again | ends.again, answer.errors | ends.errors, refresh=answer.refresh or ends.refresh)


class OffsetFinder:
    """Finds offsets by asking all leaders. spawn: starts one background flow per leader."""

    def __init__(self, *, metadata: Metadata, isolation_level: IsolationLevel, backoff: ExponentialBackoff, spawn: Spawn, now: Now) -> None:
        self._metadata = metadata
        self._isolation_level = isolation_level
        self._backoff = backoff
        self._spawn = spawn
        self._now = now

    def find(self, wanted: Mapping[TopicPartition, int]) -> Flow[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return, for each partition, the first offset at or after a time in ms; None if there is none. -1 and -2 are the end and the
        beginning, as for ask_leader().

        Raises the errors of check_exists() and of ask_leader(), authorization errors, and TimeoutError.
        """
        started_ms = self._now.ms
        asking: FanOut[TopicPartition, OffsetAndTimestamp | None] = FanOut(
            Retries(self._metadata, self._backoff),
            self._spawn,
            route=lambda tp: self._leader(tp, self._now.ms - started_ms),
            ask=lambda node_id, tps: ask_leader(node_id, {tp: wanted[tp] for tp in tps}, self._metadata, self._isolation_level),
        )
        try:
            yield from self._learn(wanted)
            yield from asking.run(wanted, stop_at_error=True)
        except TimeoutError as late:
            reasons = asking.reasons or dict.fromkeys(wanted, "not asked yet")
            for tp in reasons:
                check_exists(tp, self._metadata.snapshot, self._now.ms - started_ms, grace_ms=0)
            raise TimeoutError(f"offsets not found in time ({late}): {_listed(reasons)}") from late
        for error in asking.errors.values():
            raise error
        return {tp: asking.found[tp] for tp in wanted}

    def _learn(self, wanted: Mapping[TopicPartition, int]) -> Flow[None]:
        if any(tp.topic not in self._metadata.snapshot.topics for tp in wanted):
            yield Wait(self._metadata.refreshed())

    def _leader(self, tp: TopicPartition, waited_ms: int) -> int | str:
        leader = self._metadata.snapshot.leader(tp)
        if leader is not None:
            return leader.id
        check_exists(tp, self._metadata.snapshot, waited_ms)
        return "no leader is known"


def _oldest_version(wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel) -> int:
    """Return the oldest usable version of ListOffsets. Version 0 finds a time only by segment, so it is used for -1 and -2 only."""
    if isolation_level is IsolationLevel.READ_COMMITTED:
        return FIRST_VERSION_WITH_ISOLATION
    asks_ends_only = all(time in (OffsetSpec.LATEST, OffsetSpec.EARLIEST) for time in wanted.values())
    return 0 if asks_ends_only else FIRST_VERSION_BY_TIME


def _request(wanted: Mapping[TopicPartition, int], metadata: Metadata, isolation_level: IsolationLevel) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, time in wanted.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic, partitions=[]))
        epoch = metadata.snapshot.leader_epoch(tp)
        topic.partitions.append(ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=time))
    return ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=int(isolation_level), topics=list(topics.values()))


def _parts(response: ListOffsetsResponse) -> Iterator[Part]:
    for topic in response.topics:
        for part in topic.partitions:
            found = _found(_offset(part), part.timestamp, part.leader_epoch)
            yield Part(TopicPartition(topic.name, part.partition_index), part.error_code, found)


def _offset(answer: ListOffsetsPartitionResponse) -> int:
    """Return the offset in an answer. Version 0 has a list with one offset."""
    return answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset


def _found(offset: int, timestamp: int, leader_epoch: int) -> OffsetAndTimestamp | None:
    return None if offset == UNKNOWN_OFFSET else OffsetAndTimestamp(offset, max(timestamp, NO_TIMESTAMP), leader_epoch)


def _listed(reasons: Mapping[TopicPartition, str]) -> str:
    return "; ".join(f"{tp}: {reason}" for tp, reason in reasons.items())

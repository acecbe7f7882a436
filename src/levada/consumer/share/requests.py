"""ShareFetch and ShareAcknowledge requests (KIP-932). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from levada.consumer.group.consumer_heartbeat import Owned
from levada.consumer.share.acknowledging import AckBatch, Sending, ack_batches
from levada.consumer.share.session import ShareSessionRequest
from levada.protocol.messages import share_acknowledge, share_fetch
from levada.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from levada.protocol.messages.share_fetch import ShareFetchRequest

FIRST_VERSION_WITH_RENEWAL = 2

Parts = Mapping[Owned, Sequence[Sending]]
"""Acknowledgements by partition."""


@dataclass(frozen=True, slots=True)
class ShareFetchSettings:
    """The settings of ShareFetch requests; fields have the names of the options."""

    group_id: str
    member_id: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_poll_records: int
    record_limit: bool
    """share.acquire.mode=record_limit: max.poll.records limits the acquired records, also within a record batch (KIP-1206)."""
    request_timeout_ms: int
    check_crcs: bool


def by_partition(parts: Iterable[Sending]) -> dict[Owned, list[Sending]]:
    """Group acknowledgements by partition."""
    found: dict[Owned, list[Sending]] = {}
    for part in parts:
        found.setdefault(Owned(part.decided.topic_id, part.decided.tp.partition), []).append(part)
    return found


def share_fetch_request(settings: ShareFetchSettings, session: ShareSessionRequest, parts: Parts, max_wait_ms: int) -> ShareFetchRequest:
    """Build a ShareFetch request, which also acknowledges `parts`. max_wait_ms: how long the broker may wait for records."""
    topics = [
        share_fetch.FetchTopic(
            topic_id=topic_id,
            partitions=[
                share_fetch.FetchPartition(
                    partition_index=owned.partition, acknowledgement_batches=[batch.in_fetch() for batch in _batches(parts.get(owned, ()))]
                )
                for owned in partitions
            ],
        )
        for topic_id, partitions in _by_topic(session.to_add | parts.keys()).items()
    ]
    return ShareFetchRequest(
        group_id=settings.group_id,
        member_id=settings.member_id,
        share_session_epoch=session.epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        max_records=settings.max_poll_records,
        batch_size=settings.max_poll_records,
        share_acquire_mode=int(settings.record_limit),
        topics=topics,
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[owned.partition for owned in partitions])
            for topic_id, partitions in _by_topic(session.to_forget).items()
        ],
    )


def share_acknowledge_request(settings: ShareFetchSettings, epoch: int, parts: Parts, *, renews: bool) -> ShareAcknowledgeRequest:
    """Build a ShareAcknowledge request. epoch: the session epoch; -1 closes the session. renews: whether `parts` renew locks."""
    topics = [
        share_acknowledge.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                share_acknowledge.AcknowledgePartition(
                    partition_index=owned.partition, acknowledgement_batches=[batch.alone() for batch in _batches(parts[owned])]
                )
                for owned in partitions
            ],
        )
        for topic_id, partitions in _by_topic(parts).items()
    ]
    return ShareAcknowledgeRequest(
        group_id=settings.group_id, member_id=settings.member_id, share_session_epoch=epoch, is_renew_ack=renews, topics=topics
    )


def _batches(parts: Iterable[Sending]) -> Iterable[AckBatch]:
    return ack_batches(run for part in parts for run in part.decided.runs)


def _by_topic(partitions: Iterable[Owned]) -> dict[UUID, list[Owned]]:
    topics: dict[UUID, list[Owned]] = {}
    for owned in sorted(partitions):
        topics.setdefault(owned.topic_id, []).append(owned)
    return topics

"""Builds fetch requests from the contents that a fetch session has to send."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from levada.consumer.fetch.fetch_session import CLOSING_EPOCH, FetchTarget, SessionRequest
from levada.consumer.positions.subscription_state import PartitionState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from levada.types import IsolationLevel, TopicPartition

FIRST_VERSION_WITH_WHOLE_BATCH = 3
"""From this version on, the first batch is always complete, however large (KIP-74)."""
FIRST_VERSION_WITH_IDS = 13

FIRST_GUESS_BYTES = 32
"""The assumed size of a record before one was received."""
ALLOWANCE = 1.25
"""The factor for a bounded read: its last batch is needed completely, and records differ in size."""
LEAST_BYTES = 4096
MOST_PARTITION_BYTES = 4 << 20
"""How much of a partition is requested at most if max.partition.fetch.bytes is not set. Responses of 8 MiB took more time per record."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of Fetch requests: sizes, how long a broker may wait for data, and the consumer's rack."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    max_partition_bytes: int
    """max.partition.fetch.bytes: what is requested of a partition at first."""
    most_partition_bytes: int
    """What is requested at most, once responses are full; max_partition_bytes if the program has set that."""
    isolation_level: IsolationLevel
    rack: str
    replica_lease_ms: int
    """How long to read from the replica that the leader has named, before asking the leader again (KIP-392)."""
    buffer_bytes: int
    """fetch.buffer.bytes: from this amount on, nothing is fetched while buffered records can be read."""
    request_timeout_ms: int
    """How long a response may take, in addition to the time that the broker may wait for data."""


def grown_bytes(state: PartitionState, settings: FetchSettings, room: int) -> int:
    """Return how much of a partition to request: twice its largest response, within the settings.

    While data are waiting, a larger response costs the broker and the consumer less per record. Responses of a partition without much data
    are small, so its requests do not grow. room: bytes that the fetch buffer has for each response of a partition.
    """
    return max(settings.max_partition_bytes, min(2 * state.largest_response, settings.most_partition_bytes, room))


def partition_bytes(state: PartitionState, most: int) -> int:
    """Return the maximum size of a fetch of a partition: `most` bytes, or roughly the rest of a bounded read.

    The first response shows how large records are. Until then little is fetched: a second request costs less than unneeded data.
    """
    if state.stop_offset is None:
        return most
    left = (state.stop_offset - state.fetch_offset) * (state.bytes_per_offset or FIRST_GUESS_BYTES)
    return min(most, max(int(left * ALLOWANCE), LEAST_BYTES))


def fetch_request(session: SessionRequest, settings: FetchSettings, *, max_wait_ms: int, max_bytes: int) -> FetchRequest:
    """Build a Fetch request. Topics are in the order in which their first partitions appear in the session request."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(settings.isolation_level),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=[_fetch_topic(name, targets) for name, targets in _by_topic(session.to_send.items()).items()],
        forgotten_topics_data=_forgotten(session.to_forget),
        rack_id=settings.rack,
    )


def closing_request(session_id: int) -> FetchRequest:
    """Build the request that closes a session."""
    return FetchRequest(session_id=session_id, session_epoch=CLOSING_EPOCH)


def _fetch_topic(name: str, targets: list[tuple[int, FetchTarget]]) -> FetchTopic:
    partitions = [
        FetchPartition(
            partition=partition,
            current_leader_epoch=target.leader_epoch,
            fetch_offset=target.fetch_offset,
            partition_max_bytes=target.max_bytes,
        )
        for partition, target in targets
    ]
    return FetchTopic(topic=name, topic_id=targets[0][1].topic_id, partitions=partitions)


def _by_topic(targets: Iterable[tuple[TopicPartition, FetchTarget]]) -> dict[str, list[tuple[int, FetchTarget]]]:
    topics: dict[str, list[tuple[int, FetchTarget]]] = {}
    for tp, target in targets:
        topics.setdefault(tp.topic, []).append((tp.partition, target))
    return topics


def _forgotten(partitions: Iterable[tuple[TopicPartition, UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], ForgottenTopic] = {}
    for tp, topic_id in partitions:
        topic = topics.setdefault((tp.topic, topic_id), ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[]))
        topic.partitions.append(tp.partition)
    return list(topics.values())

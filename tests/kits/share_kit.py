"""Members of share groups without a client: they send what they are told to, right or wrong (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from levada.protocol.messages.share_acknowledge import (
    AcknowledgementBatch as AcknowledgeBatch,
)
from levada.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from levada.protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from levada.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

Part: TypeAlias = tuple[UUID, int]


class Told(NamedTuple):
    """What is said of offsets from one to another, both included: one type, or one for each."""

    first: int
    last: int
    types: tuple[int, ...] = (ACCEPT,)


class ShareMember:
    """A member of a share group. has: what it reads, by the answers that it took. Keyword arguments of the methods go into the request."""

    def __init__(self, group: str, member_id: str, *, topics: Sequence[str] = ("t",)) -> None:
        self.group = group
        self.id = member_id
        self.topics = list(topics)
        self.epoch = 0
        self.session_epoch = 0
        self.has: frozenset[Part] = frozenset()

    # Membership

    def join(self, **fields: Any) -> ShareGroupHeartbeatRequest:
        """The first heartbeat, with everything in it."""
        return self.beat(**{"member_epoch": 0, "subscribed_topic_names": self.topics, **fields})

    def beat(self, **fields: Any) -> ShareGroupHeartbeatRequest:
        """One that says that nothing has changed."""
        return ShareGroupHeartbeatRequest(**{"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, **fields})

    def leave(self) -> ShareGroupHeartbeatRequest:
        return self.beat(member_epoch=-1)

    def take(self, answer: Any) -> Any:
        """Keep what an answer to a heartbeat says."""
        if not answer.error_code:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            self.has = frozenset((topic.topic_id, index) for topic in given for index in topic.partitions)
        return answer

    # Records

    def fetch(
        self,
        parts: Iterable[Part] | None = None,
        *,
        told: Mapping[Part, Sequence[Told]] | None = None,
        forgotten: Iterable[Part] = (),
        **fields: Any,
    ) -> ShareFetchRequest:
        """A fetch. parts: what it adds to its session; all that it has with the first request."""
        added = list((self.has if self.session_epoch == 0 else ()) if parts is None else parts)
        said = {**dict.fromkeys(sorted(added), ()), **(told or {})}
        topics = [
            FetchTopic(topic_id=topic, partitions=[_fetched(index, said[topic, index]) for _, index in found])
            for topic, found in groupby(sorted(said), key=lambda part: part[0])
        ]
        gone = [
            ForgottenTopic(topic_id=topic, partitions=[index for _, index in found])
            for topic, found in groupby(sorted(forgotten), key=lambda part: part[0])
        ]
        asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        return ShareFetchRequest(**{**self._named, **asked, "topics": topics, "forgotten_topics_data": gone, **fields})

    def acknowledge(self, told: Mapping[Part, Sequence[Told]], **fields: Any) -> ShareAcknowledgeRequest:
        topics = [
            AcknowledgeTopic(
                topic_id=topic,
                partitions=[
                    AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            AcknowledgeBatch(first_offset=one.first, last_offset=one.last, acknowledge_types=list(one.types))
                            for one in told[topic, index]
                        ],
                    )
                    for _, index in found
                ],
            )
            for topic, found in groupby(sorted(told), key=lambda part: part[0])
        ]
        return ShareAcknowledgeRequest(**{**self._named, "topics": topics, **fields})

    def follow(self) -> None:
        """The session has taken a request."""
        self.session_epoch += 1

    @property
    def _named(self) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.id, "share_session_epoch": self.session_epoch}


def _fetched(index: int, told: Sequence[Told]) -> FetchPartition:
    batches = [AcknowledgementBatch(first_offset=one.first, last_offset=one.last, acknowledge_types=list(one.types)) for one in told]
    return FetchPartition(partition_index=index, acknowledgement_batches=batches)


class Got(NamedTuple):
    """What a member was given: acquired ranges with their deliveries, those that are alike and follow one another as one."""

    first: int
    last: int
    deliveries: int


def got(partition: Any) -> list[Got]:
    """Return what a partition of a ShareFetch's answer gives. Brokers may split ranges as they like, so they are joined here."""
    joined: list[Got] = []
    for one in partition.acquired_records:
        if joined and joined[-1].last + 1 == one.first_offset and joined[-1].deliveries == one.delivery_count:
            joined[-1] = joined[-1]._replace(last=one.last_offset)
        else:
            joined.append(Got(one.first_offset, one.last_offset, one.delivery_count))
    return joined

"""The topic names of a target assignment: coordinators name topics by their ids.

Metadata knows the names of topics that are subscribed to by name, or by a pattern that the client matches; if one is missing, metadata is
refreshed. For a pattern that brokers match, the client does not know the topics, so their names are requested by id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from levada.base.flow import Flow
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.topic_queries import topics_by_id
from levada.client.requests.fan_out import Spawn
from levada.consumer.group.consumer_heartbeat import Owned
from levada.errors import ConnectError
from levada.protocol.messages.metadata import MetadataResponse
from levada.types import TopicPartition


class Named(NamedTuple):
    """The partitions of a target assignment whose topic names are known, with topic ids.

    is_whole: whether these are all of its partitions.
    """

    partitions: Mapping[TopicPartition, UUID]
    is_whole: bool


class TargetNames:
    """Finds the names of topics in a target assignment, which has topic ids. Used under the engine's lock.

    learned: called when a request for names has ended, answered or not; with the error if it is permanent, else None.
    """

    def __init__(self, metadata: Metadata, spawn: Spawn, learned: Callable[[BaseException | None], None]) -> None:
        self._metadata = metadata
        self._spawn = spawn
        self._learned = learned
        self._by_id: dict[UUID, str] = {}
        self._asking: Promise[None] | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose names brokers have returned for their ids."""
        return frozenset(self._by_id.values())

    def name(self, target: Collection[Owned], current: Mapping[TopicPartition, UUID], *, asks_by_id: bool) -> Named:
        """Return the part of a target assignment whose topic names are known, and request the other names. current: the current assignment.

        asks_by_id: whether to request the names by topic id; if not, metadata is updated.
        """
        wanted = {topic_id for topic_id, _ in target}
        names = {topic_id: tp.topic for tp, topic_id in current.items()} | self._by_id
        names.update({topic_id: name for topic_id in wanted if (name := self._metadata.snapshot.topic_name(topic_id)) is not None})
        self._by_id = {topic_id: name for topic_id, name in self._by_id.items() if topic_id in wanted}
        unknown = wanted - names.keys()
        if unknown:
            self._find(unknown, asks_by_id=asks_by_id)
        found = {TopicPartition(names[topic_id], partition): topic_id for topic_id, partition in target if topic_id in names}
        return Named(found, not unknown)

    def _find(self, unknown: Collection[UUID], *, asks_by_id: bool) -> None:
        if not asks_by_id:
            self._metadata.request_update()
        elif self._asking is None:
            self._asking = self._spawn.start(self._ask(unknown))
            self._asking.on_done(self._end)

    def _ask(self, unknown: Collection[UUID]) -> Flow[None]:
        try:
            answer: MetadataResponse = yield from topics_by_id(unknown)
        except ENDED:
            raise
        except ConnectError:
            return
        self._by_id |= {topic.topic_id: topic.name for topic in answer.topics if topic.name is not None and not topic.error_code}

    def _end(self, done: Promise[None]) -> None:
        self._asking = None
        if not isinstance(done.error, ENDED):
            self._learned(done.error)

"""The parts of a consumer group's member that a program may provide: rebalance listeners, subscription patterns and assignors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import ClassVar, NamedTuple

from levada.types import TopicPartition


class RebalanceListener:
    """Is called when a subscribed consumer gets or loses partitions. Derive a class from it and pass an object to subscribe().

    Its methods run in the thread or task that calls poll(), unsubscribe() or close(). They may call commit(), seek(), position() and
    pause() of the consumer, but not poll(). In the asyncio API they may be coroutines. If a method raises, that call raises the error after
    the new assignment is complete. While on_partitions_revoked() runs, no other member has the partitions. If max.poll.interval.ms passes
    between the broker's request to revoke them and the end of the method, the member leaves the group.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new. It is called before anything is fetched, so that seek() can set where to begin.

        With an eager assignor these are all partitions of the member. With a cooperative assignor, and with group.protocol=consumer, these
        are the added partitions, perhaps none.
        """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions will go to other members.

        Offsets of the records that poll() returned may be committed here; enable.auto.commit has committed them before the call.
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions may already belong to other members, or the member leaves while its group is being rebalanced.

        Nothing can be committed for them. By default calls on_partitions_revoked().
        """
        return self.on_partitions_revoked(partitions)


class SubscriptionPattern(NamedTuple):
    """A subscription by a regular expression that the brokers evaluate, for group.protocol=consumer (KIP-848).

    pattern: an RE2 expression that has to match the whole topic name. The client need not fetch the metadata of all topics. Needs Kafka
    4.0.
    """

    pattern: str


class RebalanceProtocol(Enum):
    """How a group of the classic protocol changes from one assignment to the next (KIP-429)."""

    EAGER = "eager"
    """Every member revokes all its partitions before it joins."""
    COOPERATIVE = "cooperative"
    """Members keep their partitions, revoke only those that go to other members, and then join again."""


class TopicLayout(NamedTuple):
    """A topic for an assignor. racks: for each partition of the topic, the racks of the brokers that have a replica."""

    name: str
    racks: tuple[frozenset[str], ...]

    @property
    def partitions(self) -> list[TopicPartition]:
        """The topic's partitions, in order."""
        return [TopicPartition(self.name, index) for index in range(len(self.racks))]


class MemberSubscription(NamedTuple):
    """The subscription that a group's member sent when it joined.

    owned: its partitions since `generation`; empty if its protocol is eager. rack: its client.rack, None without one.
    instance_id: its group.instance.id. user_data: data that its assignor added.
    """

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


class MemberAssignment(NamedTuple):
    """The partitions that a member of a group gets. user_data: data for the assignor of the member; None for none."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class PartitionAssignor(ABC):
    """Assigns the partitions of a group to its members. Derive a class from it and pass objects as partition.assignment.strategy.

    The group's leader, a member that the broker selects, calls assign() for the whole group, in the client's own thread or in the event
    loop. It should be fast, because the group waits. The members agree on an assignor by its NAME, so all of them need an assignor with the
    same name.
    """

    NAME: ClassVar[str]
    PROTOCOLS: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    """The protocols that the assignor supports. A group is cooperative if all assignors of its members are cooperative."""

    @abstractmethod
    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return the assignment of each member by member id. topics: all existing topics to which members are subscribed."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return data that this member sends to the leader with its subscription to these topics; None to send none."""
        return None

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: B027 - most assignors have nothing to remember
        """Is called with the new assignment of this member, before its rebalance listener. generation: the group's generation."""

"""What a program may give a member of a consumer group: who hears of rebalances, and how partitions are shared out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import ClassVar, NamedTuple

from levada.types import TopicPartition


class RebalanceListener:
    """Hears which partitions a subscribed consumer gets and loses; derive from it, and give an object to subscribe().

    Its methods run in the thread or task that calls poll(), unsubscribe() or close(), and may call the consumer: commit(), seek(),
    position(), pause(), but not poll(). On asyncio they may be coroutines. What a method raises comes out of that call, once the assignment
    is what the group has agreed on. While on_partitions_revoked() runs nobody else has the partitions; at most max.poll.interval.ms passes
    between the broker's request for them and the end of the method, or the member leaves the group.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new; called before anything is fetched, so seek() decides where to begin.

        With an eager assignor they are all partitions of the member; with a cooperative one, and with group.protocol=consumer, those that
        were added, which may be none.
        """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions go to somebody else next. What was handed out may be committed here, and is by enable.auto.commit before."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions may belong to somebody else already, or the member leaves while its group is being rebalanced.

        Nothing can be committed for them. By default calls on_partitions_revoked().
        """
        return self.on_partitions_revoked(partitions)


class SubscriptionPattern(NamedTuple):
    """A subscription by a regular expression that the brokers evaluate, for group.protocol=consumer (KIP-848).

    pattern: in the syntax of RE2; it has to match the whole topic name. The client need not fetch metadata of all topics. Needs Kafka 4.0.
    """

    pattern: str


class RebalanceProtocol(Enum):
    """How a group of the classic protocol goes from one assignment to the next (KIP-429)."""

    EAGER = "eager"
    """Every member gives up all its partitions before it joins."""
    COOPERATIVE = "cooperative"
    """Members keep their partitions, give up those that go to others, and join again to hand them over."""


class TopicLayout(NamedTuple):
    """A topic as an assignor sees it. racks: for each of its partitions, the racks of the brokers that have a replica of it."""

    name: str
    racks: tuple[frozenset[str], ...]

    @property
    def partitions(self) -> list[TopicPartition]:
        """The topic's partitions, in order."""
        return [TopicPartition(self.name, index) for index in range(len(self.racks))]


class MemberSubscription(NamedTuple):
    """What a member of a group said when it joined.

    owned: the partitions it has, since generation; none where its protocol is eager. rack: its client.rack, None without one.
    instance_id: its group.instance.id. user_data: what its assignor added.
    """

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


class MemberAssignment(NamedTuple):
    """What a member of a group gets. user_data: what its assignor is told besides."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class PartitionAssignor(ABC):
    """Shares out the partitions of a group among its members; derive from it, and give objects as partition.assignment.strategy.

    The member that the broker made the leader runs assign() for the whole group, in the client's own thread or in the event loop; it should
    be quick, since the group waits. NAME is what the members agree on, so all of them need an assignor of one name.
    """

    NAME: ClassVar[str]
    PROTOCOLS: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    """What it supports. A group is cooperative when every assignor that its members offer is."""

    @abstractmethod
    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return what each member gets, by member id. topics: all that members are subscribed to and that exist."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return what this member tells the leader besides its subscription to these topics."""
        return None

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: B027 - most assignors have nothing to remember
        """Learn what this member got in a generation, before its listener does."""

"""The interface between a consumer and its group membership, the same for classic groups and consumer groups.

The program passes in its subscription, its calls of poll(), and requests to rebalance or to leave. A membership returns assignments, and
pending work: revoking partitions and taking new ones. Only the program's own thread or task may do this work, because a listener is called
there, and the program may commit there. The engine does everything else, such as heartbeats, which never wait for the program. So poll()
first does the pending work. A program that is busy delays a rebalance until its next poll(), or until the member leaves after
max.poll.interval.ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from levada.base.flow import CallerFlow, Flow
from levada.base.promise import Promise
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.consumer.counters import GroupCounters
from levada.consumer.group.listener_calls import Caller
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError
from levada.types import ConsumerGroupMetadata, TopicPartition


class Subscribed(NamedTuple):
    """A subscription: topic names, or a pattern that whole topic names must match.

    pattern: the client matches it; None without one. broker_pattern: brokers match it; "" without one.
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    broker_pattern: str = ""

    def matching(self, snapshot: ClusterSnapshot, *, with_internal: bool) -> frozenset[str]:
        """Return the topics that are subscribed to by name, or else those in metadata that match the pattern of the client.

        with_internal: include topics such as __consumer_offsets if they match.
        """
        if self.pattern is None:
            return self.topics
        there = [topic for topic in snapshot.topics.values() if topic.error is ErrorCode.NONE and (with_internal or not topic.is_internal)]
        return frozenset(topic.name for topic in there if self.pattern.fullmatch(topic.name))

    def covers(self, topic: str) -> bool:
        """Whether a topic is subscribed to, by name or by the pattern of the client."""
        return topic in self.topics if self.pattern is None else self.pattern.fullmatch(topic) is not None


class Holdings(NamedTuple):
    """How a member reads and changes its consumer's assignment. Called under the engine's lock.

    held: returns the assignment; empty without a subscription. assign: replaces it, unless the program has unsubscribed; partitions that
    stay keep their positions. watch: keeps metadata of these topics; None means all topics. announce: wakes a waiting poll().
    """

    held: Callable[[], frozenset[TopicPartition]]
    assign: Callable[[Iterable[TopicPartition], int], None]
    watch: Callable[[frozenset[str] | None, int], None]
    announce: Callable[[], None]


class Membership(Protocol):
    """The membership of a consumer in its group. Called under the engine's lock, except do_pending_work() and give_up(), which take the
    lock only for moments.
    """

    @property
    def counters(self) -> GroupCounters:
        """The counters."""
        ...

    @property
    def subscribed(self) -> Subscribed | None:
        """The subscription; None without one."""
        ...

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are subscribed to by name, or that match the pattern. If brokers match it, those of the assigned partitions."""
        ...

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The group metadata for commits; without a generation if the consumer was not a member since subscribe()."""
        ...

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would accept a commit now."""
        ...

    @property
    def final_error(self) -> KafkaError | None:
        """The error that every poll() raises until unsubscribe() or close(); None if the consumer may be or become a member."""
        ...

    def for_commit(self) -> ConsumerGroupMetadata:
        """Return `group` if offsets may be committed. Raises CommitFailedError; in a classic group that rebalances,
        RebalanceInProgressError.
        """
        ...

    def refused(self, error: BrokerError, group: ConsumerGroupMetadata) -> KafkaError:
        """Return the error to raise for a refused commit. In a classic group, also change the membership as the error says."""
        ...

    def for_look_up(self) -> ConsumerGroupMetadata:
        """Return the group metadata for OffsetFetch."""
        ...

    def caught_up(self, error: BrokerError, group: ConsumerGroupMetadata) -> Promise[None] | None:
        """After a refused commit, return a promise that settles when the same commit may succeed; None if it will be refused again."""
        ...

    def subscribe(self, subscribed: Subscribed, now_ms: int) -> None:
        """Subscribe to these topics from the next poll() on. Raises IllegalStateError if the group protocol does not support it."""
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Make the next poll() start a rebalance of a classic group. In a consumer group, only log that it has no effect."""
        ...

    def entered(self, now_ms: int) -> None:
        """Note that the program has called poll(): the timer of max.poll.interval.ms stops."""
        ...

    def returned(self, now_ms: int) -> None:
        """Note that poll() has returned to the program: the timer of max.poll.interval.ms starts."""
        ...

    @property
    def has_pending_work(self) -> bool:
        """Whether poll() has to do work for the group before it returns records."""
        ...

    def do_pending_work(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Do the pending work of a rebalance. Return False if work is left: the time was over, or the program still has records of
        partitions to revoke (Caller.is_held_up). Raises errors that prevent joining, and errors of listeners.
        """
        ...

    def give_up(self, caller: Caller) -> CallerFlow[None]:
        """Revoke all partitions before unsubscribe() or close(). Raises errors of listeners."""
        ...

    def leave(self, reason: str, now_ms: int, *, tells: bool | None) -> Flow[None]:
        """Leave the group; return the flow that sends the request for that.

        tells: True sends a request to leave for good. False sends none, and the session times out; but a static member of the consumer
        protocol leaves temporarily (epoch -2), as in Java. None means True for a dynamic member, and False for a static one.
        """
        ...

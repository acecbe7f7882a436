"""What a consumer's core and the APIs know of its membership in a group, whatever protocol the group speaks.

Into it goes what the program wants: a subscription, calls for records, the wish to rebalance or to leave. Out of it come duties: what
only the program's own thread or task may do, because the program hears of it and may commit meanwhile, which is giving up partitions and
taking them. Everything else a member does by itself, in the engine: heartbeats never wait for the program. So a call for records first does
the duties that are due, and a program that works on what it has holds a rebalance back until its next call, or until the member has left
for want of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from levada.base.flow import CallerFlow, Flow
from levada.base.promise import Promise
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.consumer.counters import GroupCounters
from levada.consumer.group.caller import Caller
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError
from levada.types import ConsumerGroupMetadata, TopicPartition


class Subscribed(NamedTuple):
    """What a program is subscribed to: topics by name, or all whose whole names match a pattern, here or at the brokers."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    broker_pattern: str = ""

    def matching(self, snapshot: ClusterSnapshot, *, with_internal: bool) -> frozenset[str]:
        """Return the topics that are meant, as far as metadata knows them. with_internal: topics such as __consumer_offsets may be."""
        if self.pattern is None:
            return self.topics
        there = [topic for topic in snapshot.topics.values() if topic.error is ErrorCode.NONE and (with_internal or not topic.is_internal)]
        return frozenset(topic.name for topic in there if self.pattern.fullmatch(topic.name))

    def covers(self, topic: str) -> bool:
        """Whether a topic is meant."""
        return topic in self.topics if self.pattern is None else self.pattern.fullmatch(topic) is not None


class Holdings(NamedTuple):
    """How a member changes what its consumer reads; to be called under the engine's lock.

    held: what is assigned. assign: replaces it; partitions that stay keep their positions. watch: has metadata of these topics kept, None
    for all there are. announce: wakes a call for records, so that it looks again.
    """

    held: Callable[[], frozenset[TopicPartition]]
    assign: Callable[[Iterable[TopicPartition], int], None]
    watch: Callable[[frozenset[str] | None, int], None]
    announce: Callable[[], None]


class Membership(Protocol):
    """See the module's theory. Called under the engine's lock, but for duties(), which takes it for moments."""

    @property
    def counters(self) -> GroupCounters:
        """What has been counted so far."""
        ...

    @property
    def subscribed(self) -> Subscribed | None:
        """What it is subscribed to, None when it is no member and does not want to be one."""
        ...

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it is subscribed to by name, or that match its pattern."""
        ...

    @property
    def group(self) -> ConsumerGroupMetadata:
        """On whose behalf offsets are committed; without a generation outside the group."""
        ...

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would take offsets now."""
        ...

    @property
    def final_error(self) -> KafkaError | None:
        """What every call for records raises until unsubscribe() or close(); None of who is a member, or may yet be one."""
        ...

    def for_commit(self) -> ConsumerGroupMetadata:
        """Return `group` where offsets may be committed. Raises CommitFailedError, RebalanceInProgressError."""
        ...

    def refused(self, error: BrokerError, group: ConsumerGroupMetadata) -> KafkaError:
        """A commit for that group was refused: draw the consequences, and return what to raise."""
        ...

    def for_look_up(self) -> ConsumerGroupMetadata:
        """Return as whom the coordinator is asked what is committed."""
        ...

    def caught_up(self, error: BrokerError, group: ConsumerGroupMetadata) -> Promise[None] | None:
        """A commit for that group was refused: return what is settled when the same commit may succeed, None where it will not."""
        ...

    def subscribe(self, subscribed: Subscribed, now_ms: int) -> None:
        """Want these topics, from the next call for records on. Raises IllegalStateError for what its protocol does not have."""
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalanced with the next call for records."""
        ...

    def entered(self, now_ms: int) -> None:
        """The program is within a call for records."""
        ...

    def returned(self, now_ms: int) -> None:
        """The program has the thread or task for itself."""
        ...

    @property
    def has_pending_work(self) -> bool:
        """Whether a call for records has something to do first."""
        ...

    def do_pending_work(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Do what is due; False when the time was over first. Raises what keeps the member from its group, and what listeners raise."""
        ...

    def give_up(self, caller: Caller) -> CallerFlow[None]:
        """Give up all partitions, for good: before unsubscribe() and close(). Raises what listeners raise."""
        ...

    def leave(self, reason: str, now_ms: int, *, tells: bool | None) -> Flow[None]:
        """Be no member any more; return the flow that tells the coordinator.

        tells: False leaves it to find out by itself; None is for a member that may come back as the same, where it is static.
        """
        ...

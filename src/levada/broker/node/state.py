"""What an API handler works on: the node's state, and one request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from levada.base.promise import Promise
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.topic import Topic
from levada.broker.config.broker_config import BrokerConfig
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import ClientOrigin
from levada.broker.coordinators.groups.groups import GroupCoordinator
from levada.broker.coordinators.internal_topics import ADMIN_CLIENT_ID
from levada.broker.network.connection import Session
from levada.broker.node.control import Faults
from levada.broker.node.fetch_sessions import FetchSessions
from levada.broker.node.purgatory import Delayed, Purgatory
from levada.broker.quotas.throttles import QuotaExceededError, Quoted, Throttles
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.share.share_partitions import SharePartitions
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, InvalidTopicError, UnknownTopicOrPartitionError, broker_error
from levada.protocol.schema import Request, Response
from levada.types import Node, TopicPartition

_WHOLE = re.compile(r"-?[0-9]+")
_ABOUT_LEADERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _no_work() -> int:
    return 0


class VersionRange(NamedTuple):
    """The versions of an API that are advertised."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerState:
    """Everything a node knows. wall_offset_ms turns the node's now_ms into milliseconds since the epoch.

    settings: as they are now. started: tells, by Kafka's names, what follows from how the broker was started.

    work_ns: tells how much work was done so far, in nanoseconds of one processor, for request_percentage.
    """

    settings: BrokerSettings
    cluster: Cluster
    node_id: int
    faults: Faults
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    shares: SharePartitions
    throttles: Throttles
    wall_offset_ms: int
    version_ranges: Callable[[], list[VersionRange]]
    started: Callable[[], Mapping[str, str]] = dict
    work_ns: Callable[[], int] = _no_work

    @property
    def told_settings(self) -> BrokerSettings:
        """The settings with all that is told of the broker."""
        return self.settings.beside(self.started())

    def is_one_broker(self, name: str) -> bool:
        """Whether a resource is this broker, and not all brokers (""). INVALID_REQUEST (BrokerError) for another one."""
        if name and not _WHOLE.fullmatch(name):
            raise BrokerError(f"a broker is named by its number, not by {name!r}", code=ErrorCode.INVALID_REQUEST)
        if name and int(name) != self.node_id:
            raise BrokerError(f"this is broker {self.node_id}, not {name!r}", code=ErrorCode.INVALID_REQUEST)
        return name != ""

    def broker_config(self, name: str) -> BrokerConfig:
        """Return what was changed of this broker, or of all ("")."""
        settings, is_shared = self.told_settings, not self.is_one_broker(name)
        own, shared, _ = settings.layers
        return BrokerConfig(settings, shared if is_shared else own, is_shared=is_shared)

    def wall_ms(self, now_ms: int) -> int:
        """Return one of the node's times in milliseconds since the epoch."""
        return now_ms + self.wall_offset_ms

    def do_later(self, at_ms: int, act: Callable[[int], None]) -> None:
        """Do something of the node's own, which no client waits for, at a time; `act` is passed the time then."""
        self.purgatory.add(Delayed(lambda: False, act, (), self), at_ms)

    def find_topic(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic:
        """Return the topic a request means; the error depends on how it was named."""
        topic = self.cluster.topic_by_id(topic_id) if by_id else self.cluster.topic(name)
        if topic is None and by_id:
            raise BrokerError("this server does not host this topic id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None:
            raise UnknownTopicOrPartitionError("this server does not host this topic-partition")
        return topic

    def hosted_partition(self, topic: Topic | None, index: int) -> Partition:
        """Return a partition to read from, led by any broker. Raises UnknownTopicOrPartitionError."""
        partition = self.cluster.partition(topic, index)
        if partition.is_internal:
            self.cluster.internal_topics.observe(self.wall_ms(self.cluster.now_ms))
        return partition

    def lead_partition(self, topic: Topic, index: int) -> Partition:
        """Return the partition if this node leads it, else raise what Kafka answers."""
        partition = self.hosted_partition(topic, index)
        if partition.leader != self.node_id:
            led_by = "no node" if partition.leader == NO_LEADER else f"node {partition.leader}"
            raise BrokerError(f"{partition.name} is led by {led_by}, not by node {self.node_id}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def new_leader(self, topic: Topic | None, index: int, code: ErrorCode) -> Partition | None:
        """Return a partition that another node leads, when an error is about that: its answer names the leader (KIP-951)."""
        if code not in _ABOUT_LEADERS or topic is None or not 0 <= index < len(topic.partitions):
            return None
        partition = topic.partitions[index]
        return partition if partition.leader not in (self.node_id, NO_LEADER) else None

    def raise_planned_fault(self, api: str, partition: TopicPartition) -> None:
        """Raise the error a test has asked for in this partition, if any."""
        code = self.faults.partition_error(api, partition)
        if code is not ErrorCode.NONE:
            raise broker_error(code, f"{partition}: planned by a test")


@dataclass(slots=True, kw_only=True)
class Call:
    """One request on its way through the node.

    client_id: as its header has it. size_bytes: of the request. throttle_ms: for how long the client is to be muted with the answer.
    """

    state: BrokerState
    session: Session
    api: Api
    request: Any
    version: int
    client_id: str | None
    now_ms: int
    size_bytes: int = 0
    throttle_ms: int = 0

    @property
    def connection_id(self) -> int:
        """The connection it came over, as whatever waits for it is owned."""
        return self.session.connection_id

    def check_writable(self, topic: Topic) -> None:
        """Raise InvalidTopicError for a topic that this client may not write to, whatever its rights."""
        if topic.is_internal and self.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopicError(f"{topic.name} is an internal topic, which only coordinators write to")

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes, at the addresses of the listener by which the client came."""
        return self.state.cluster.nodes_at(self.session.listener.name)

    @property
    def origin(self) -> ClientOrigin:
        """Who asks, as descriptions of groups tell it."""
        return ClientOrigin(self.client_id or "", "/" + self.session.host)

    @property
    def wall_ms(self) -> int:
        """Now, in milliseconds since the epoch."""
        return self.state.wall_ms(self.now_ms)

    @property
    def quoted(self) -> Quoted:
        """Whose quotas the request counts against."""
        return Quoted(self.session.principal.partition(":")[2], self.client_id or "")

    def throttle(self, pause_ms: int) -> None:
        """Mute the client for at least so long, once it was answered."""
        self.throttle_ms = max(self.throttle_ms, pause_ms)

    def mutate(self, partitions: int, *, strict_since: int) -> None:
        """Count partitions that are created or deleted against the client's quota.

        Where it is used up, requests of versions from strict_since on are refused, and others are carried out and mute the client longer.
        Raises BrokerError (THROTTLING_QUOTA_EXCEEDED).
        """
        try:
            strict = self.version >= strict_since
            self.throttle(self.state.cluster.access.mutations.mutate(self.quoted, partitions, self.now_ms, strict=strict))
        except QuotaExceededError as error:
            self.throttle(error.throttle_ms)
            raise


class Unanswered(NamedTuple):
    """The request has no response (acks=0). close: it failed, and closing the connection is the only way to say so (E2)."""

    close: bool


Answer: TypeAlias = Response | Promise[Response] | Unanswered


class Api(NamedTuple):
    """How one API is served.

    oldest: the lowest version really served; advertised_oldest: the lowest one claimed. refuse: the response that carries an error code in
    every place a client looks at, for a request of this version. is_silent: whether a request has no response at all.
    """

    request: type[Request]
    oldest: int
    newest: int
    handle: Callable[[Call], Answer]
    refuse: Callable[[Any, int, ErrorCode], Response]
    advertised_oldest: int
    is_silent: Callable[[Any], bool] = lambda request: False

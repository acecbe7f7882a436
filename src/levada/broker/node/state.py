"""What an API handler gets: the node's state, and one request."""

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
from levada.broker.node.faults import Faults
from levada.broker.node.fetch_sessions import FetchSessions
from levada.broker.node.purgatory import Delayed, Purgatory
from levada.broker.quotas.throttles import QuotaClient, QuotaExceededError, Throttles
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.share.share_partitions import SharePartitions
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, InvalidTopicError, UnknownTopicOrPartitionError, broker_error
from levada.protocol.schema import Request, Response
from levada.types import Node, TopicPartition

_WHOLE = re.compile(r"-?[0-9]+")
_ABOUT_LEADERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _no_time_used() -> int:
    return 0


class VersionRange(NamedTuple):
    """The advertised versions of an API."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerState:
    """The state of a node. wall_offset_ms: added to the node's now_ms, it gives milliseconds since the epoch.

    settings: the present ones. started: returns the settings that follow from how the broker was started, by Kafka's names.

    work_ns: returns the processor time used so far, in nanoseconds, for request_percentage.
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
    work_ns: Callable[[], int] = _no_time_used

    @property
    def described_settings(self) -> BrokerSettings:
        """The settings, including those that only DescribeConfigs needs."""
        return self.settings.beside(self.started())

    def is_one_broker(self, name: str) -> bool:
        """Whether a resource names this broker, or all brokers (""). Raises INVALID_REQUEST (BrokerError) for another broker."""
        if name and not _WHOLE.fullmatch(name):
            raise BrokerError(f"a broker resource is named by the broker's id, not by {name!r}", code=ErrorCode.INVALID_REQUEST)
        if name and int(name) != self.node_id:
            raise BrokerError(f"this is broker {self.node_id}, not {name!r}", code=ErrorCode.INVALID_REQUEST)
        return name != ""

    def broker_config(self, name: str) -> BrokerConfig:
        """Return the dynamic settings of this broker, or of all brokers ("")."""
        settings, is_shared = self.described_settings, not self.is_one_broker(name)
        own, shared, _ = settings.layers
        return BrokerConfig(settings, shared if is_shared else own, is_shared=is_shared)

    def wall_ms(self, now_ms: int) -> int:
        """Return a node's time in milliseconds since the epoch."""
        return now_ms + self.wall_offset_ms

    def call_at(self, at_ms: int, act: Callable[[int], None]) -> None:
        """Call a function at a time, with that time; for work that no client waits for."""
        self.purgatory.add(Delayed(lambda: False, act, (), self), at_ms)

    def find_topic(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic:
        """Return the topic of a request. The error depends on whether it is given by name or by id."""
        topic = self.cluster.topic_by_id(topic_id) if by_id else self.cluster.topic(name)
        if topic is None and by_id:
            raise BrokerError("this server does not host this topic id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None:
            raise UnknownTopicOrPartitionError("this server does not host this topic-partition")
        return topic

    def hosted_partition(self, topic: Topic | None, index: int) -> Partition:
        """Return a partition to read from, whichever node leads it. Raises UnknownTopicOrPartitionError."""
        partition = self.cluster.partition(topic, index)
        if partition.is_internal:
            self.cluster.internal_topics.observe(self.wall_ms(self.cluster.now_ms))
        return partition

    def lead_partition(self, topic: Topic, index: int) -> Partition:
        """Return a partition that this node leads. Raises Kafka's errors for one that it does not lead."""
        partition = self.hosted_partition(topic, index)
        if partition.leader != self.node_id:
            led_by = "no node" if partition.leader == NO_LEADER else f"node {partition.leader}"
            raise BrokerError(f"{partition.name} is led by {led_by}, not by node {self.node_id}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def new_leader(self, topic: Topic | None, index: int, code: ErrorCode) -> Partition | None:
        """Return a partition with another leader, if the error is about leaders: the response then names the leader (KIP-951)."""
        if code not in _ABOUT_LEADERS or topic is None or not 0 <= index < len(topic.partitions):
            return None
        partition = topic.partitions[index]
        return partition if partition.leader not in (self.node_id, NO_LEADER) else None

    def raise_planned_fault(self, api: str, partition: TopicPartition) -> None:
        """Raise the error that a test has requested for this partition, if any."""
        code = self.faults.partition_error(api, partition)
        if code is not ErrorCode.NONE:
            raise broker_error(code, f"{partition}: planned by a test")


@dataclass(slots=True, kw_only=True)
class Call:
    """One request.

    client_id: from its header. size_bytes: of the request. throttle_ms: for how long the client is muted after the response.
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
        """The id of its connection, which owns whatever waits for it."""
        return self.session.connection_id

    def check_writable(self, topic: Topic) -> None:
        """Raise InvalidTopicError for a topic that this client may not write to, whatever its permissions."""
        if topic.is_internal and self.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopicError(f"{topic.name} is an internal topic, which only coordinators write to")

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes, with their addresses at the client's listener."""
        return self.state.cluster.nodes_at(self.session.listener.name)

    @property
    def origin(self) -> ClientOrigin:
        """The client, as descriptions of groups show it."""
        return ClientOrigin(self.client_id or "", "/" + self.session.host)

    @property
    def wall_ms(self) -> int:
        """Now, in milliseconds since the epoch."""
        return self.state.wall_ms(self.now_ms)

    @property
    def quoted(self) -> QuotaClient:
        """The client whose quotas the request counts against."""
        return QuotaClient(self.session.principal.partition(":")[2], self.client_id or "")

    def throttle(self, pause_ms: int) -> None:
        """Mute the client for at least this long after the response."""
        self.throttle_ms = max(self.throttle_ms, pause_ms)

    def mutate(self, partitions: int, *, strict_since: int) -> None:
        """Count created or deleted partitions against the client's quota.

        If it is used up, requests of versions from strict_since on are refused; older ones are carried out and mute the client for longer.
        Raises BrokerError (THROTTLING_QUOTA_EXCEEDED).
        """
        try:
            strict = self.version >= strict_since
            self.throttle(self.state.cluster.access.mutations.mutate(self.quoted, partitions, self.now_ms, strict=strict))
        except QuotaExceededError as error:
            self.throttle(error.throttle_ms)
            raise


class Unanswered(NamedTuple):
    """The request has no response (acks=0). close: it has failed, and closing the connection is the only way to tell the client."""

    close: bool


Answer: TypeAlias = Response | Promise[Response] | Unanswered


class Api(NamedTuple):
    """One API and its handler.

    oldest: the lowest version that is served. advertised_oldest: the lowest one in ApiVersions. refuse: returns a response for a request of
    this version, with an error code in every place that clients read. is_silent: whether a request has no response at all.
    """

    request: type[Request]
    oldest: int
    newest: int
    handle: Callable[[Call], Answer]
    refuse: Callable[[Any, int, ErrorCode], Response]
    advertised_oldest: int
    is_silent: Callable[[Any], bool] = lambda request: False

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
    """The lowest and the highest version of an API that the broker advertises."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerState:
    """The state of a node, which the handlers of all APIs use.

    wall_offset_ms: milliseconds since the epoch, minus the node's time now_ms. settings: the settings as they are now.
    started: returns the settings that follow from how the broker was started, by Kafka's names. work_ns: returns the processor time used so
    far, in nanoseconds, for the quota request_percentage.
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
        """The broker settings, including those that follow from how the broker was started."""
        return self.settings.beside(self.started())

    def is_one_broker(self, name: str) -> bool:
        """Return True if a resource name is this broker's id, False if it is "", which means all brokers. Raises INVALID_REQUEST
        (BrokerError) for another broker, and for a name that is no number.
        """
        if name and not _WHOLE.fullmatch(name):
            raise BrokerError(f"a broker resource is named by the broker's id, not by {name!r}", code=ErrorCode.INVALID_REQUEST)
        if name and int(name) != self.node_id:
            raise BrokerError(f"this is broker {self.node_id}, not {name!r}", code=ErrorCode.INVALID_REQUEST)
        return name != ""

    def broker_config(self, name: str) -> BrokerConfig:
        """Return the dynamic settings of a resource: of this broker, or, for the name "", of all brokers. Raises like is_one_broker()."""
        settings, is_shared = self.described_settings, not self.is_one_broker(name)
        own, shared, _ = settings.layers
        return BrokerConfig(settings, shared if is_shared else own, is_shared=is_shared)

    def wall_ms(self, now_ms: int) -> int:
        """Convert a time of the node's clock to milliseconds since the epoch."""
        return now_ms + self.wall_offset_ms

    def call_at(self, at_ms: int, act: Callable[[int], None]) -> None:
        """Call a function at a time of the node's clock; the function gets the current time. For work on which no client waits."""
        self.purgatory.add(Delayed(lambda: False, act, (), self), at_ms)

    def find_topic(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic:
        """Return a topic by its id or by its name. Raises BrokerError (UNKNOWN_TOPIC_ID) or UnknownTopicOrPartitionError if
        there is none.
        """
        topic = self.cluster.topic_by_id(topic_id) if by_id else self.cluster.topic(name)
        if topic is None and by_id:
            raise BrokerError("this server does not host this topic id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None:
            raise UnknownTopicOrPartitionError("this server does not host this topic-partition")
        return topic

    def hosted_partition(self, topic: Topic | None, index: int) -> Partition:
        """Return a partition, even if another node leads it. Raises UnknownTopicOrPartitionError.

        If it is a partition of an internal topic, the coordinators write their state as records from now on.
        """
        partition = self.cluster.partition(topic, index)
        if partition.is_internal:
            self.cluster.internal_topics.observe(self.wall_ms(self.cluster.now_ms))
        return partition

    def lead_partition(self, topic: Topic, index: int) -> Partition:
        """Return a partition that this node leads, like hosted_partition(). Raises BrokerError (NOT_LEADER_OR_FOLLOWER), too, if another
        node or no node leads it.
        """
        partition = self.hosted_partition(topic, index)
        if partition.leader != self.node_id:
            led_by = "no node" if partition.leader == NO_LEADER else f"node {partition.leader}"
            raise BrokerError(f"{partition.name} is led by {led_by}, not by node {self.node_id}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def new_leader(self, topic: Topic | None, index: int, code: ErrorCode) -> Partition | None:
        """Return a partition whose leader the response should name (KIP-951). None unless the error code is about leaders and another node
        leads the partition.
        """
        if code not in _ABOUT_LEADERS or topic is None or not 0 <= index < len(topic.partitions):
            return None
        partition = topic.partitions[index]
        return partition if partition.leader not in (self.node_id, NO_LEADER) else None

    def raise_planned_fault(self, api: str, partition: TopicPartition) -> None:
        """Raise the next error that a test has requested for this partition in requests of this API, if there is one, and remove it."""
        code = self.faults.partition_error(api, partition)
        if code is not ErrorCode.NONE:
            raise broker_error(code, f"{partition}: planned by a test")


@dataclass(slots=True, kw_only=True)
class Call:
    """One request that is processed.

    client_id: the client id in the request's header. size_bytes: the size of the request. throttle_ms: how long no further request of the
    client is read after the response.
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
        """The id of the connection on which the request arrived. Waiting operations of the request have it as their owner."""
        return self.session.connection_id

    def check_writable(self, topic: Topic) -> None:
        """Raise InvalidTopicError if the topic is internal, unless the client is ADMIN_CLIENT_ID. Permissions are not checked."""
        if topic.is_internal and self.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopicError(f"{topic.name} is an internal topic, which only coordinators write to")

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes of the cluster by id, with the addresses of the listener to which the client is connected."""
        return self.state.cluster.nodes_at(self.session.listener.name)

    @property
    def origin(self) -> ClientOrigin:
        """The client id and the host of the client, for descriptions of groups."""
        return ClientOrigin(self.client_id or "", "/" + self.session.host)

    @property
    def wall_ms(self) -> int:
        """The time of the request in milliseconds since the epoch."""
        return self.state.wall_ms(self.now_ms)

    @property
    def quoted(self) -> QuotaClient:
        """The user and the client id whose quotas the request counts against."""
        return QuotaClient(self.session.principal.partition(":")[2], self.client_id or "")

    def throttle(self, pause_ms: int) -> None:
        """Do not read further requests of the client for at least this time after the response."""
        self.throttle_ms = max(self.throttle_ms, pause_ms)

    def mutate(self, partitions: int, *, strict_since: int) -> None:
        """Count created or deleted partitions against the client's quota controller_mutation_rate.

        If the quota is used up, requests of version `strict_since` or later are refused. Earlier versions are carried out, and the client
        is throttled after the response. Raises BrokerError (THROTTLING_QUOTA_EXCEEDED).
        """
        try:
            strict = self.version >= strict_since
            self.throttle(self.state.cluster.access.mutations.mutate(self.quoted, partitions, self.now_ms, strict=strict))
        except QuotaExceededError as error:
            self.throttle(error.throttle_ms)
            raise


class Unanswered(NamedTuple):
    """The result of a request that gets no response (acks=0). close: whether to close the connection, because the request has failed and
    the client cannot be told otherwise.
    """

    close: bool


Answer: TypeAlias = Response | Promise[Response] | Unanswered


class Api(NamedTuple):
    """An API and the functions that handle its requests.

    oldest: the lowest version that is served. advertised_oldest: the lowest version in ApiVersions responses. refuse: returns a response to
    a request of a version, with an error code in every place that clients read. is_silent: returns whether a request gets no response at
    all.
    """

    request: type[Request]
    oldest: int
    newest: int
    handle: Callable[[Call], Answer]
    refuse: Callable[[Any, int, ErrorCode], Response]
    advertised_oldest: int
    is_silent: Callable[[Any], bool] = lambda request: False

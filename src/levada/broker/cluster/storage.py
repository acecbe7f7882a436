"""The interface by which a cluster reads and writes what has to survive a restart. In memory nothing is kept; broker/disk keeps files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from levada.acls import AclBinding
from levada.broker.config.topics import TopicConfig
from levada.broker.coordinators.logs import CoordinatorLogs
from levada.broker.log.storage import NO_FILES
from levada.broker.replication.replica import ReplicaFiles
from levada.types import TopicPartition


class StoredTopic(NamedTuple):
    """A topic as it is stored. assignment: the nodes with the replicas of each partition."""

    name: str
    id: UUID
    overrides: dict[str, str]
    assignment: list[tuple[int, ...]]


class LogDir(NamedTuple):
    """A node's log directory. total_bytes, usable_bytes: the size and the free space of its disk volume, -1 for a broker in memory."""

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1


class ClusterStorage(Protocol):
    """Stores a cluster's state, so that it survives a restart. The methods raise BrokerError (KAFKA_STORAGE_ERROR) if the disk fails."""

    @property
    def coordinators(self) -> CoordinatorLogs | None:
        """The logs of the coordinators; None if the coordinators' records are not stored."""

    def cluster_id(self, fresh: Callable[[], str]) -> str:
        """Return the stored cluster id. If none is stored, store the result of fresh() and return it."""

    def topics(self) -> list[StoredTopic]:
        """Return the stored topics."""

    def keep_topics(self, topics: Iterable[StoredTopic]) -> None:
        """Store the list of all topics, in place of the former list."""

    def section(self, name: str) -> Any:
        """Return the value stored under a name, as JSON types; None if there is no value."""

    def keep_section(self, name: str, content: Any) -> None:
        """Store a value under a name, in place of the former one. content: JSON types only."""

    def acls(self) -> list[AclBinding]:
        """Return the stored ACLs."""

    def keep_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Store the list of all ACLs, in place of the former list."""

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> ReplicaFiles:
        """Return the files in which a broker stores its replica of a partition. node_id: the broker. name: the partition."""

    def log_dir(self, node_id: int) -> LogDir:
        """Return a node's log directory."""

    def first_producer_id(self) -> int:
        """Return a producer id such that neither it nor any higher producer id was ever used."""

    def keep_producer_ids(self, end: int) -> None:
        """Store that all producer ids below `end` may have been used."""


class InMemory:
    """A ClusterStorage that stores nothing. All data is lost at a restart."""

    coordinators: CoordinatorLogs | None = None

    def cluster_id(self, fresh: Callable[[], str]) -> str:
        """Return the result of fresh(), because no id is stored."""
        return fresh()

    def topics(self) -> list[StoredTopic]:
        """Return no topics, because none are stored."""
        return []

    def keep_topics(self, topics: Iterable[StoredTopic]) -> None:
        """Do nothing: the topics are not stored."""

    def section(self, name: str) -> Any:
        """Return None, because no section is stored."""
        return None

    def keep_section(self, name: str, content: Any) -> None:
        """Do nothing: the section is not stored."""

    def acls(self) -> list[AclBinding]:
        """Return no ACLs, because none are stored."""
        return []

    def keep_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Do nothing: the ACLs are not stored."""

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> ReplicaFiles:
        """Return NO_FILES: the replica is only in memory."""
        return NO_FILES

    def log_dir(self, node_id: int) -> LogDir:
        """Return a log directory with the name "memory". No such folder exists."""
        return LogDir("memory")

    def first_producer_id(self) -> int:
        """Return 0, because no producer id was used before this start."""
        return 0

    def keep_producer_ids(self, end: int) -> None:
        """Do nothing: producer ids are not stored."""


IN_MEMORY: ClusterStorage = InMemory()

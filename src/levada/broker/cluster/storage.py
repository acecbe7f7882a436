"""The port by which a cluster reads and writes what has to survive a restart. In memory nothing is kept; broker/disk keeps files."""

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
    """A topic that was kept. assignment: the nodes of each partition's replicas."""

    name: str
    id: UUID
    overrides: dict[str, str]
    assignment: list[tuple[int, ...]]


class LogDir(NamedTuple):
    """A node's folder. total_bytes, usable_bytes: of the volume it is on, -1 where there is none."""

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1


class ClusterStorage(Protocol):
    """What a cluster keeps."""

    @property
    def coordinators(self) -> CoordinatorLogs | None:
        """Where coordinators write, None where nothing is kept."""

    def cluster_id(self, fresh: Callable[[], str]) -> str:
        """Return the id that was kept, or keep a fresh one."""

    def topics(self) -> list[StoredTopic]:
        """Return the topics that were kept."""

    def keep_topics(self, topics: Iterable[StoredTopic]) -> None:
        """Keep which topics there are now."""

    def section(self, name: str) -> Any:
        """Return what was kept under a name, made of what JSON has; None for nothing."""

    def keep_section(self, name: str, content: Any) -> None:
        """Keep something under a name, in place of what was kept there. content: made of what JSON has."""

    def acls(self) -> list[AclBinding]:
        """Return the access rules that were kept."""

    def keep_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Keep which access rules there are now."""

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> ReplicaFiles:
        """Return the files of one replica."""

    def log_dir(self, node_id: int) -> LogDir:
        """Return where a node's replicas are."""

    def first_producer_id(self) -> int:
        """Return the producer id from which on none was ever given out."""

    def keep_producer_ids(self, end: int) -> None:
        """Keep that producer ids before this one may have been given out."""


class InMemory:
    """Nothing is kept."""

    coordinators: CoordinatorLogs | None = None

    def cluster_id(self, fresh: Callable[[], str]) -> str:
        """Return a fresh one."""
        return fresh()

    def topics(self) -> list[StoredTopic]:
        """Return none."""
        return []

    def keep_topics(self, topics: Iterable[StoredTopic]) -> None:
        """Keep nothing."""

    def section(self, name: str) -> Any:
        """Return nothing."""
        return None

    def keep_section(self, name: str, content: Any) -> None:
        """Keep nothing."""

    def acls(self) -> list[AclBinding]:
        """Return none."""
        return []

    def keep_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Keep nothing."""

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> ReplicaFiles:
        """Return none."""
        return NO_FILES

    def log_dir(self, node_id: int) -> LogDir:
        """Return a name that is no folder's."""
        return LogDir("memory")

    def first_producer_id(self) -> int:
        """Return 0."""
        return 0

    def keep_producer_ids(self, end: int) -> None:
        """Keep nothing."""


IN_MEMORY: ClusterStorage = InMemory()

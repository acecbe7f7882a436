"""Where a broker keeps what is to outlive it, as ports: its logic opens no files. In memory nothing is kept; broker/disk keeps files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from levada.acls import AclBinding
from levada.record.batch import RecordBatch
from levada.types import TopicPartition
from levada.wire.varint import Bytes

if TYPE_CHECKING:
    from levada.broker.config.topics import TopicConfig
    from levada.broker.coordinators.logs import CoordinatorLogs
    from levada.broker.replication.replica import Replica


class SegmentFile(Protocol):
    """The file of one segment. Positions are bytes from its beginning. Raises BrokerError(KAFKA_STORAGE_ERROR) where a disk fails."""

    def append(self, batch: RecordBatch) -> None:
        """Write a batch at the end, whole or not at all."""

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes between two positions."""

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def delete(self) -> None:
        """Delete the file and what belongs to it."""


class LogFiles(Protocol):
    """The files of one replica's log."""

    def load(self, replica: Replica) -> None:
        """Fill a new replica with what was kept of it, and keep what becomes of it from now on."""

    def delete(self) -> None:
        """Delete all of them."""

    def begin(self, base_offset: int) -> SegmentFile | None:
        """Nothing is appended to the segment before any more: begin the next one."""

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Put new segments with these batches in the place of old ones. clean_until: up to where the log is compacted then."""

    def start_at(self, offset: int) -> None:
        """Keep that the log starts at an offset now."""

    def move_to(self, node_id: int) -> None:
        """Another node has this replica from now on."""


class StoredTopic(NamedTuple):
    """A topic that was kept. assignment: the nodes of each partition's replicas."""

    name: str
    id: UUID
    overrides: dict[str, str]
    assignment: list[tuple[int, ...]]


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic, encoded; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Written(NamedTuple):
    """What was written at once: records, or the end of a transaction. producer_id: -1 outside of transactions. committed: None for records.

    place: the partition of an internal topic that it belongs to.
    """

    place: TopicPartition
    producer_id: int
    epoch: int
    records: Sequence[CoordinatorRecord]
    committed: bool | None = None


class CoordinatorLog(Protocol):
    """What coordinators write, by place. now_ms: milliseconds since the epoch; without it, the time of the last write."""

    def append(self, place: TopicPartition, records: Sequence[CoordinatorRecord], now_ms: int = 0) -> None:
        """Keep records at once."""

    def append_in_transaction(
        self, place: TopicPartition, records: Sequence[CoordinatorRecord], producer_id: int, epoch: int, now_ms: int
    ) -> None:
        """Keep records that count once the producer's transaction is committed."""

    def end_transaction(self, place: TopicPartition, producer_id: int, epoch: int, *, committed: bool) -> None:
        """A producer's transaction has ended in this partition."""

    def read(self) -> Iterable[Written]:
        """Return everything that was kept, in the order of each place."""


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

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> LogFiles:
        """Return the files of one replica."""

    def log_dir(self, node_id: int) -> LogDir:
        """Return where a node's replicas are."""

    def first_producer_id(self) -> int:
        """Return the producer id from which on none was ever given out."""

    def keep_producer_ids(self, end: int) -> None:
        """Keep that producer ids before this one may have been given out."""


class _NoFiles:
    def load(self, replica: Replica) -> None:
        pass

    def delete(self) -> None:
        pass

    def begin(self, base_offset: int) -> None:
        return None

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        return []

    def start_at(self, offset: int) -> None:
        pass

    def move_to(self, node_id: int) -> None:
        pass


NO_FILES: LogFiles = _NoFiles()


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

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> LogFiles:
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

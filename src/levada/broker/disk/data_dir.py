"""A data directory: the folder with the stored state of a cluster, opened by one broker process at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

from levada.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from levada.broker.cluster.storage import LogDir, StoredTopic
from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig, check_topic_name
from levada.broker.disk.coordinator_files import CoordinatorFiles
from levada.broker.disk.files import lock, make_private, storing, sync_folder, write_whole
from levada.broker.disk.formats import decode_offsets, encode_offsets, meta_properties
from levada.broker.disk.replica_files import ReplicaFolder
from levada.errors import IllegalStateError, InvalidTopicError
from levada.logs import Log
from levada.types import TopicPartition

_log = Log("levada.broker")
_CLUSTER = "cluster.json"
_FORMAT = 1
_STARTS = "log-start-offset-checkpoint"
_RECOVERY = "recovery-point-offset-checkpoint"
_CLEANED = "cleaner-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class DataDir:
    """A ClusterStorage in a folder, which is created if it does not exist.

    Raises IllegalStateError if another broker uses the folder or its content cannot be read, BrokerError if the system refuses access.
    """

    def __init__(self, path: Path | str, settings: BrokerSettings) -> None:
        self.path = Path(path)
        with storing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            make_private(self.path)
        self._lock = lock(self.path / ".lock")
        try:
            self._kept = self._read_cluster()
            self._nodes: dict[int, _NodeDir] = {}
            self.coordinators = CoordinatorFiles(self.path / "coordinators", settings)
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Close all logs, even if some of them fail, and unlock the folder. Repeating it has no effect. Raises the last error."""
        if self._lock.closed:
            return
        with ExitStack() as closing:
            closing.callback(self._lock.close)
            closing.callback(self.coordinators.close)
            for node in self._nodes.values():
                closing.callback(node.close)

    # ClusterStorage

    def cluster_id(self, fresh: Callable[[], str]) -> str:
        """Return the stored cluster id. If none is stored, store the result of fresh() and return it."""
        if "id" not in self._kept:
            self._keep({"id": fresh()})
        return str(self._kept["id"])

    def topics(self) -> list[StoredTopic]:
        """Return the stored topics."""
        return _topics_in(self._kept)

    def keep_topics(self, topics: Iterable[StoredTopic]) -> None:
        """Store the list of all topics, in place of the former list."""
        kept = [
            {"name": topic.name, "id": str(topic.id), "config": topic.overrides, "assignment": [list(nodes) for nodes in topic.assignment]}
            for topic in topics
        ]
        if kept != self._kept.get("topics", []):
            self._keep({"topics": kept})

    def section(self, name: str) -> Any:
        """Return the value stored under a name, as JSON types; None if there is no value."""
        return self._kept.get(name)

    def keep_section(self, name: str, content: Any) -> None:
        """Store a value under a name, in place of the former one. content: JSON types only."""
        if self.section(name) != content:
            self._keep({name: content})

    def acls(self) -> list[AclBinding]:
        """Return the stored ACLs."""
        return _acls_in(self._kept)

    def keep_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Store the list of all ACLs, in place of the former list."""
        self._keep({"acls": [[*pattern, *entry] for pattern, entry in bindings]})

    def files(self, node_id: int, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> ReplicaFolder:
        """Return the files in which a broker stores its replica of a partition. node_id: the broker. name: the partition."""
        home = _Home(self._node, node_id, name)
        return ReplicaFolder(home, topic_id, flush_messages=config.flush_messages, index_interval_bytes=config.index_interval_bytes)

    def log_dir(self, node_id: int) -> LogDir:
        """Return a node's log directory."""
        folder = self._node(node_id).path
        with storing(folder):
            volume = shutil.disk_usage(folder)
        return LogDir(str(folder.resolve()), volume.total, volume.free)

    def first_producer_id(self) -> int:
        """Return a producer id such that neither it nor any higher producer id was ever used."""
        return int(self._kept.get("next_producer_id", 0))

    def keep_producer_ids(self, end: int) -> None:
        """Store that all producer ids below `end` may have been used."""
        self._keep({"next_producer_id": end})

    # Inside

    def _node(self, node_id: int) -> _NodeDir:
        if node_id not in self._nodes:
            self._nodes[node_id] = _NodeDir(self.path / f"node-{node_id}", node_id, str(self._kept["id"]))
        return self._nodes[node_id]

    def _read_cluster(self) -> dict[str, Any]:
        path = self.path / _CLUSTER
        with storing(path):
            if not path.exists():
                return {}
            data = path.read_bytes()
        try:
            kept: dict[str, Any] = json.loads(data)
            if kept["format"] != _FORMAT:
                raise ValueError(f"format {kept['format']}, not {_FORMAT}")
            for topic in _topics_in(kept):
                check_topic_name(topic.name)
            int(kept.get("next_producer_id", 0))
            _acls_in(kept)
        except (ValueError, KeyError, TypeError, AttributeError, InvalidTopicError) as fault:
            raise IllegalStateError(f"{path} cannot be read ({fault}); its topics cannot be found without it") from fault
        return kept

    def _keep(self, changed: Mapping[str, Any]) -> None:
        kept = {"format": _FORMAT, **self._kept, **changed}
        write_whole(self.path / _CLUSTER, json.dumps(kept).encode())
        self._kept = kept


def _topics_in(kept: Mapping[str, Any]) -> list[StoredTopic]:
    return [
        StoredTopic(topic["name"], UUID(topic["id"]), topic["config"], [tuple(replicas) for replicas in topic["assignment"]])
        for topic in kept.get("topics", [])
    ]


def _acls_in(kept: Mapping[str, Any]) -> list[AclBinding]:
    return [
        AclBinding(
            ResourcePattern(ResourceType(resource), name, PatternType(pattern)),
            AccessControlEntry(principal, AclOperation(operation), AclPermissionType(permission), host),
        )
        for resource, name, pattern, principal, operation, permission, host in kept.get("acls", [])
    ]


class _NodeDir:
    """The folder of one node. It holds the node's replicas and the checkpoint files of their logs.

    files: the replicas' files, by partition. was_finished: whether the broker that used the folder before was closed, so that all logs are
    flushed and have their indexes.
    """

    def __init__(self, path: Path, node_id: int, cluster_id: str) -> None:
        self.path = path
        with storing(path):
            make_private(path)
            self.was_finished = (path / _CLEAN_SHUTDOWN).exists()
            if self.was_finished:
                (path / _CLEAN_SHUTDOWN).unlink()
                sync_folder(path)
            if not (path / "meta.properties").exists():
                write_whole(path / "meta.properties", meta_properties(cluster_id, node_id, uuid4()).encode())
            self._checkpoints = {name: self._read(name) for name in (_STARTS, _CLEANED)}
        self.files: dict[TopicPartition, ReplicaFolder] = {}

    def close(self) -> None:
        """Close all logs, even if some of them fail. Then store their end offsets and high watermarks, and write the file that marks a
        clean shutdown. If a log cannot be closed, raise the last error instead.
        """
        with ExitStack() as closing:
            for files in self.files.values():
                closing.callback(files.close)
        # Everything is flushed now. After a crash these checkpoints are older, and the logs are read to their ends.
        self._write(_RECOVERY, {name: files.log.end_offset for name, files in self.files.items()})
        self._write(_HIGH_WATERMARKS, {name: files.log.high_watermark for name, files in self.files.items()})
        write_whole(self.path / _CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": -1}).encode())

    def kept(self, checkpoint: str, name: TopicPartition) -> int:
        """Return the offset that a checkpoint file has for a log, 0 if it has none. checkpoint: the name of the file."""
        return self._checkpoints[checkpoint].get(name, 0)

    def keep(self, checkpoint: str, name: TopicPartition, offset: int) -> None:
        """Store the offset of a log in a checkpoint file. checkpoint: the name of the file."""
        if self.kept(checkpoint, name) != offset:
            self._change(checkpoint, {**self._checkpoints[checkpoint], name: offset})

    def forget(self, name: TopicPartition) -> None:
        """Remove a replica from the node's files and checkpoints, because the replica was deleted or moved to another node."""
        self.files.pop(name, None)
        for checkpoint, offsets in self._checkpoints.items():
            if name in offsets:
                self._change(checkpoint, {known: offset for known, offset in offsets.items() if known != name})

    def _change(self, checkpoint: str, offsets: dict[TopicPartition, int]) -> None:
        self._write(checkpoint, offsets)
        self._checkpoints[checkpoint] = offsets

    def _write(self, checkpoint: str, offsets: Mapping[TopicPartition, int]) -> None:
        write_whole(self.path / checkpoint, encode_offsets(offsets).encode())

    def _read(self, checkpoint: str) -> dict[TopicPartition, int]:
        path = self.path / checkpoint
        try:
            return decode_offsets(path.read_text()) if path.exists() else {}
        except ValueError as fault:
            _log.error("%s cannot be read: logs start at their first segments, and are compacted again: %s", path, fault)
            return {}


class _Home:
    """The Home of a replica in a node's folder. nodes: a function that returns the folder of a node."""

    def __init__(self, nodes: Callable[[int], _NodeDir], node_id: int, name: TopicPartition) -> None:
        self._nodes = nodes
        self._node = nodes(node_id)
        self._name = name
        self.folder = self._node.path / f"{name.topic}-{name.partition}"

    @property
    def was_finished(self) -> bool:
        """Whether the broker that wrote the log before was closed, so that the log is flushed and has its indexes."""
        return self._node.was_finished

    @property
    def log_start(self) -> int:
        """The log start offset."""
        return self._node.kept(_STARTS, self._name)

    @property
    def clean_until(self) -> int:
        """The offset up to which the log is compacted."""
        return self._node.kept(_CLEANED, self._name)

    def keep_start(self, offset: int) -> None:
        """Store the log start offset."""
        self._node.keep(_STARTS, self._name, offset)

    def keep_cleaned(self, offset: int) -> None:
        """Store the offset up to which the log is compacted."""
        self._node.keep(_CLEANED, self._name, offset)

    def take_in(self, files: ReplicaFolder) -> None:
        """Register the replica's files, so that they are closed together with the node's other files."""
        self._node.files[self._name] = files

    def leave(self) -> None:
        """Stop tracking the replica's files and remove its checkpoints. The files themselves are not deleted."""
        self._node.forget(self._name)

    def at(self, node_id: int) -> Self:
        """Return the Home that the replica has at another node."""
        return type(self)(self._nodes, node_id, self._name)

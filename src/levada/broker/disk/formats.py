"""The small files beside the segments, as bytes and text: checkpoints, leader epochs, producer snapshots, properties.

Kafka's classes write the same: CheckpointFile, LeaderEpochCheckpointFile, ProducerStateManager, MetaProperties, PartitionMetadataFile.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from levada.errors import CorruptRecordError
from levada.record.header import checksum
from levada.types import TopicPartition

_VERSION = "0"
_METADATA = re.compile(r"version: 0\ntopic_id: ([\w-]{22})\s*", re.ASCII)
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_CHECKED_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the text of a checkpoint file with an offset for each partition."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""])


def decode_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets in the text of a checkpoint file, by partition. Raises ValueError if the text is damaged."""
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in _entries(text, 3)}


def encode_epochs(starts: Iterable[tuple[int, int]]) -> str:
    """Return the text of a leader-epoch-checkpoint file. starts: pairs of an epoch and its start offset."""
    lines = [f"{epoch} {start}" for epoch, start in starts]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""])


def decode_epochs(text: str) -> list[tuple[int, int]]:
    """Return pairs of an epoch and its start offset from the text of a leader-epoch-checkpoint file. Raises ValueError if the text is
    damaged.
    """
    return [(int(epoch), int(start)) for epoch, start in _entries(text, 2)]


def _entries(text: str, fields: int) -> list[list[str]]:
    version, count, *lines = text.splitlines()
    entries = [line.split(" ") for line in lines if line]
    if version != _VERSION or int(count) != len(entries) or any(len(entry) != fields for entry in entries):
        raise ValueError(f"not a checkpoint of version {_VERSION}")
    return entries


class SnapshotEntry(NamedTuple):
    """The state of one producer in a producer snapshot.

    offset_delta: the difference between the last and the first offset of the producer's last batch. open_from: the first offset of its open
    transaction, -1 if none is open. last_sequence, last_offset: -1 if it has written no batch in its epoch. timestamp: of its newest record
    or marker, in ms.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    open_from: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """Return the bytes of a producer snapshot file."""
    body = [_ENTRY.pack(*entry) for entry in entries]
    data = bytearray(_SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, 0, len(body)) + b"".join(body))
    struct.pack_into(">I", data, 2, checksum(bytes(data[_CHECKED_FROM:])))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """Return the entries in the bytes of a producer snapshot file. Raises CorruptRecordError if the bytes are damaged."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptRecordError(f"a producer snapshot of only {len(data)} bytes")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    whole = len(data) == _SNAPSHOT_HEAD.size + count * _ENTRY.size
    if version != _SNAPSHOT_VERSION or not whole or crc != checksum(data[_CHECKED_FROM:]):
        raise CorruptRecordError(f"a snapshot of {count} producers, version {version}, is damaged")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :])]


def short_id(uuid: UUID) -> str:
    """Return a UUID in Kafka's text form, base64 without padding."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def meta_properties(cluster_id: str, node_id: int, directory_id: UUID) -> str:
    """Return the text of a node's meta.properties file. directory_id: the id of its log directory."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={short_id(directory_id)}\n"


def partition_metadata(topic_id: UUID) -> str:
    """Return the text of a partition.metadata file."""
    return f"version: 0\ntopic_id: {short_id(topic_id)}"


def topic_id_in(metadata: str) -> str | None:
    """Return the topic id in the text of a partition.metadata file, in Kafka's text form; None if the text is damaged."""
    found = _METADATA.fullmatch(metadata)
    return found and found[1]

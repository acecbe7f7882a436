"""How long transactions held back the last stable offset of a partition, measured from the log files of a broker on this machine.

So no requests disturb the measurement. The topic has message.timestamp.type=LogAppendTime, so each record batch, and each marker of a
transaction, has the time at which the broker appended it, in milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEHIND_LENGTH = 12
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
BY_BROKER = {"message_timestamp_type": "LogAppendTime"}
"""The setting of the topic."""


class _Batch(NamedTuple):
    producer_id: int
    is_marker: bool
    is_transactional: bool
    appended_ms: int


def held_ms(partition: Path, warm_ms: int) -> list[int]:
    """Return for each transaction in a partition's folder the milliseconds between its first batch and its marker.

    warm_ms: transactions that begin within this time after the first one are left out.
    """
    begun: dict[int, int] = {}
    held = []
    first_ms: int | None = None
    for segment in sorted(partition.glob("*.log")):
        for batch in _batches(segment.read_bytes()):
            if batch.is_marker:
                # A transaction without rows in this partition has no batch before its marker.
                begin = begun.pop(batch.producer_id, None)
                if begin is not None and first_ms is not None and begin - first_ms >= warm_ms:
                    held.append(batch.appended_ms - begin)
            elif batch.is_transactional:
                begun.setdefault(batch.producer_id, batch.appended_ms)
                first_ms = batch.appended_ms if first_ms is None else first_ms
    return held


def _batches(log: bytes) -> Iterator[_Batch]:
    at = 0
    while at + _HEADER.size <= len(log):
        _, length, _, _, _, attributes, _, _, most_ms, producer_id, _, _, _ = _HEADER.unpack_from(log, at)
        if not length:
            return
        yield _Batch(producer_id, bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL), most_ms)
        at += _BEHIND_LENGTH + length

"""SnapshotHeaderRecord: the value of the control record at the start of a snapshot (KIP-630).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int16, int64


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """last_contained_log_timestamp: timestamp of the newest record that the snapshot covers."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()

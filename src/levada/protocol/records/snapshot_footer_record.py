"""SnapshotFooterRecord: the value of the control record at the end of a snapshot (KIP-630).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int16


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """Its presence shows that the snapshot is complete."""

    version: int = int16()

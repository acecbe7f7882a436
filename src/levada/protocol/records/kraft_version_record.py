"""KRaftVersionRecord: the value of a control record that sets the version of the quorum's protocol (KIP-853).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int16


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """0: the voters are configured statically. 1: the voters are in the log and may change."""

    version: int = int16()
    kraft_version: int = int16()

"""ControlRecordTypeSchema: the key of a control record, after its version.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int16


class ControlRecordTypeSchema(Data, versions="0"):
    """type: 0 abort, 1 commit, 2 leader change, 3 snapshot header, 4 snapshot footer, 5 KRaft version, 6 KRaft voters."""

    type: int = int16()

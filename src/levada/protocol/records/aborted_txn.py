"""AbortedTxn: an entry of a segment's index of aborted transactions (the .txnindex file).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int64


class AbortedTxn(Data, versions="0"):
    """last_stable_offset: the last stable offset when the transaction was aborted."""

    producer_id: int = int64()
    first_offset: int = int64()
    last_offset: int = int64()
    last_stable_offset: int = int64()

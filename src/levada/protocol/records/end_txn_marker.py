"""EndTxnMarker: the value of a control record that ends a transaction.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, int32


class EndTxnMarker(Data, versions="0"):
    """coordinator_epoch fences coordinators that have been replaced."""

    coordinator_epoch: int = int32()

"""EndTxnMarker: the value of a control record that ends a transaction."""

from __future__ import annotations

from levada.protocol.schema import Data, int32


class EndTxnMarker(Data, versions="0"):
    """coordinator_epoch fences coordinators that have been replaced."""

    coordinator_epoch: int = int32()

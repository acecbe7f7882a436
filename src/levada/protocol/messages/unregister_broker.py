"""UnregisterBroker (key 64): remove a broker that is down for good from the cluster.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], key=64, versions="0", flexible="0+"):
    """The broker."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Response, request=UnregisterBrokerRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")

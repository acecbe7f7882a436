"""BrokerHeartbeat (key 63): a broker tells the controller that it is alive (KIP-631).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"], key=63, versions="0-2", flexible="0+"):
    """want_fence, want_shut_down: state changes that the broker wants. It also lists directories that failed or are cordoned."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[UUID] = array(uuid, "1+", tagged="1+", tag=0)
    cordoned_log_dirs: list[UUID] | None = array(uuid, "2+", nullable="2+", tagged="2+", tag=1)


class BrokerHeartbeatResponse(Response, request=BrokerHeartbeatRequest):
    """The state that the controller wants for the broker."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()

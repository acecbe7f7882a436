"""Heartbeat (key 12): tell the coordinator of a classic group that a member is alive, and learn about rebalances.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
    """The member that is alive."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")


class HeartbeatResponse(Response, request=HeartbeatRequest):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()

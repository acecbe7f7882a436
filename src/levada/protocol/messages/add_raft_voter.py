"""AddRaftVoter (key 80): add a controller to the voters (KIP-853).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    """The address of a listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], key=80, versions="0-1", flexible="0+"):
    """The controller, the directory of its log, and its addresses. ack_when_committed: answer after the commit."""

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, request=AddRaftVoterRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)

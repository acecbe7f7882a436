"""RemoveRaftVoter (key 81): remove a controller from the voters (KIP-853).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, int16, int32, string, uuid


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], key=81, versions="0", flexible="0+"):
    """The controller and the directory of its log."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()


class RemoveRaftVoterResponse(Response, request=RemoveRaftVoterRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)

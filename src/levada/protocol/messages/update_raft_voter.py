"""UpdateRaftVoter (key 82): a voter tells the leader its addresses and the versions that it supports (KIP-853).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, struct, uint16, uuid


class Listener(Struct):
    """The address of a listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    """The versions of the quorum's protocol that the node supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"], key=82, versions="0", flexible="0+"):
    """The voter, its addresses and its supported versions."""

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class CurrentLeader(Struct):
    """The leader, as far as the controller knows; -1 if there is none."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Response, request=UpdateRaftVoterRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: CurrentLeader = struct(CurrentLeader, tagged="0+", tag=0)

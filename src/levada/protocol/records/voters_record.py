"""VotersRecord: the value of a control record that lists the voters (KIP-853).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Data, Struct, array, int16, int32, string, struct, uint16, uuid


class Endpoint(Struct):
    """The address of a listener of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    """The versions of the quorum's protocol that the node supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    """A voter: its addresses and the versions that it supports."""

    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class VotersRecord(Data, versions="0", flexible="0+"):
    """All voters, not a change to them."""

    version: int = int16()
    voters: list[Voter] = array(Voter)

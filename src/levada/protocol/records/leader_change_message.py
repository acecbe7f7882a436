"""LeaderChangeMessage: the value of a control record that begins a leader's epoch in the metadata log (KIP-595).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Data, Struct, array, int16, int32, uuid


class Voter(Struct):
    """A voter, and the directory of its log."""

    voter_id: int = int32()
    voter_directory_id: UUID = uuid("1+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The leader, the voters, and the voters that voted for it."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)

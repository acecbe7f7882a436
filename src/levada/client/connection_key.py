"""Which connection: a connection is not a node.

A broker answers the requests of a connection in order, and may keep a Fetch for a long time. What must not wait behind it goes over a
connection of its own to the same node. As in Java's client and librdkafka, that is what goes to coordinators: heartbeats, commits,
transactions. State, back-off, requests in flight and failures belong to the key.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias


class Purpose(IntEnum):
    """What a connection is for. A number, because keys are hashed many times for each request."""

    GENERAL = 0
    COORDINATOR = 1


class ConnectionKey(NamedTuple):
    """A node and what for."""

    node_id: int
    purpose: Purpose = Purpose.GENERAL

    def __str__(self) -> str:
        return f"node {self.node_id}" if self.purpose is Purpose.GENERAL else f"node {self.node_id} as {self.purpose.name.lower()}"


Peer: TypeAlias = int | ConnectionKey
"""A connection's key; a node's id alone means its general connection."""


@lru_cache(1024)
def _general(node_id: int) -> ConnectionKey:
    return ConnectionKey(node_id)


def key_of(peer: Peer) -> ConnectionKey:
    """Return the key."""
    return peer if isinstance(peer, ConnectionKey) else _general(peer)

"""Which connection: a connection is not a node.

A broker answers the requests of a connection in order, and may keep a Fetch for a long time. So fetches have a connection of their own
to each node, and nothing else ever waits behind one: no look-up of an offset, no metadata. What goes to coordinators has another one, as
in Java's client and librdkafka: heartbeats, commits, transactions. State, back-off, requests in flight and failures belong to the key.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias


class Purpose(IntEnum):
    """What a connection is for. A number, because keys are hashed many times for each request."""

    GENERAL = 0
    COORDINATOR = 1
    FETCH = 2


_IN_WORDS = {Purpose.GENERAL: "", Purpose.COORDINATOR: " as coordinator", Purpose.FETCH: " for fetches"}


class ConnectionKey(NamedTuple):
    """A node and what for."""

    node_id: int
    purpose: Purpose = Purpose.GENERAL

    def __str__(self) -> str:
        return f"node {self.node_id}{_IN_WORDS[self.purpose]}"


Peer: TypeAlias = int | ConnectionKey
"""A connection's key; a node's id alone means its general connection."""


@lru_cache(1024)
def _general(node_id: int) -> ConnectionKey:
    return ConnectionKey(node_id)


def key_of(peer: Peer) -> ConnectionKey:
    """Return the key."""
    return peer if isinstance(peer, ConnectionKey) else _general(peer)

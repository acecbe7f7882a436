"""The key of a connection: a node and a purpose.

A broker answers the requests of a connection in order, and may hold a Fetch for a long time. So each node gets a connection of its own for
fetches, and no other request (ListOffsets, Metadata, ...) waits behind a Fetch. Requests to a coordinator (heartbeats, commits,
transactions) have another connection, as in Java's client and librdkafka. State, back-off, requests in flight and failures are kept per
key.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias


class Purpose(IntEnum):
    """The purpose of a connection. It is a number, because connection keys are hashed many times for each request."""

    GENERAL = 0
    COORDINATOR = 1
    FETCH = 2


_IN_WORDS = {Purpose.GENERAL: "", Purpose.COORDINATOR: " as coordinator", Purpose.FETCH: " for fetches"}


class ConnectionKey(NamedTuple):
    """Identifies a connection: the node id and the purpose."""

    node_id: int
    purpose: Purpose = Purpose.GENERAL

    def __str__(self) -> str:
        return f"node {self.node_id}{_IN_WORDS[self.purpose]}"


Peer: TypeAlias = int | ConnectionKey
"""The key of a connection. A node id alone means the node's general connection."""


@lru_cache(1024)
def _general(node_id: int) -> ConnectionKey:
    return ConnectionKey(node_id)


def key_of(peer: Peer) -> ConnectionKey:
    """Return the connection key of a peer, which is a key or a node id."""
    return peer if isinstance(peer, ConnectionKey) else _general(peer)

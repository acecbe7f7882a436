"""The state of one broker for a share consumer: its session, and its pending and unanswered acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.consumer.group.consumer_heartbeat import Owned
from levada.consumer.share.acknowledging import Sending
from levada.consumer.share.requests import Parts
from levada.consumer.share.session import ShareSession
from levada.types import TopicPartition

Wanted = Mapping[Owned, TopicPartition]
"""Partitions to fetch from: by topic id and number, with their names."""
NOTHING_WANTED: Wanted = {}


class Leader:
    """A broker that leads partitions. pending: acknowledgements to send. sent: the request in flight. retry_at_ms: when it may be sent the
    next one.

    losses: how often the connection had been lost when the session was opened.
    """

    __slots__ = ("connection", "failures", "is_closed", "losses", "pending", "retry_at_ms", "sent", "session")

    def __init__(self, node_id: int) -> None:
        # As for other consumers, fetches have a connection of their own. The broker ends the session with it.
        self.connection = ConnectionKey(node_id, Purpose.FETCH)
        self.session = ShareSession()
        self.pending: list[Sending] = []
        self.sent: Sent | None = None
        self.is_closed = False
        self.losses = 0
        self.failures = 0
        self.retry_at_ms = 0

    @property
    def node_id(self) -> int:
        """The node id of the broker."""
        return self.connection.node_id

    @property
    def in_flight(self) -> bool:
        """Whether a request is in flight."""
        return self.sent is not None

    def take_pending(self) -> list[Sending]:
        """Remove and return the pending acknowledgements, to send them."""
        pending, self.pending = self.pending, []
        return pending


class Sent(NamedTuple):
    """A request in flight, with its acknowledgements and the partitions to fetch. closes: whether the request closes the session."""

    leader: Leader
    parts: Parts
    wanted: Wanted = NOTHING_WANTED
    closes: bool = False

    @property
    def all(self) -> list[Sending]:
        """The acknowledgements of all partitions in the request."""
        return [part for parts in self.parts.values() for part in parts]

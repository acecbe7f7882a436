"""One broker as a share consumer sees it: its session, and what is to be sent to it. And what a request stood for while it is answered."""

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
"""Partitions to fetch from, by the ids that messages have, with their names."""
NOTHING_WANTED: Wanted = {}


class Leader:
    """See the module's text. pending: acknowledgements that are not sent yet. sent: what is not answered yet. retry_at_ms: nothing is
    sent before that. losses: of the connection, when the session was opened over it.
    """

    __slots__ = ("connection", "failures", "is_closed", "losses", "pending", "retry_at_ms", "sent", "session")

    def __init__(self, node_id: int) -> None:
        # Fetches have a connection of their own, as those of other consumers; the broker ends the session with it.
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
        """The broker."""
        return self.connection.node_id

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its answer."""
        return self.sent is not None

    def take_pending(self) -> list[Sending]:
        """Return what is to be sent, which is on its way from now on."""
        pending, self.pending = self.pending, []
        return pending


class Sent(NamedTuple):
    """What a request stood for: acknowledgements, and the partitions that were fetched from. closes: whether it was the session's last."""

    leader: Leader
    parts: Parts
    wanted: Wanted = NOTHING_WANTED
    closes: bool = False

    @property
    def all(self) -> list[Sending]:
        """The acknowledgements of all partitions."""
        return [part for parts in self.parts.values() for part in parts]

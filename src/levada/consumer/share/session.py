"""The client's side of a share session with one broker (ShareSessionHandler in Java, KIP-932).

With a session a client names only the partitions that are new or not wanted any more: the broker remembers the others. A session also holds
the locks on acquired records. When it ends, with its last request or with the connection, the broker may deliver these records to any
member. Both sides count requests, so each notices when the other has lost the session:

    0        open a session, in place of an existing one: name every partition, acknowledge nothing
    n > 0    name new partitions, partitions to forget, and acknowledgements
    -1       send the last acknowledgements, and close

One request at a time: call begin() for a ShareFetch, or read `epoch` for a ShareAcknowledge; then call answered() or lost().
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from levada.consumer.fetch.fetch_session import FIRST_EPOCH, next_epoch
from levada.consumer.group.consumer_heartbeat import Owned


class ShareSessionRequest(NamedTuple):
    """The session fields of a ShareFetch request, and its changes of the partitions to fetch."""

    epoch: int
    to_add: frozenset[Owned]
    to_forget: frozenset[Owned]


class ShareSession:
    """The share session with one broker."""

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.lost_before = 0
        """How many sessions with this broker have ended. Records that were acquired in them are not locked any more."""
        self._known: frozenset[Owned] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether the broker has this session, as far as the client knows. Without a session nothing can be acknowledged."""
        return self.epoch != FIRST_EPOCH

    def begin(self, wanted: Collection[Owned]) -> ShareSessionRequest:
        """Return the session fields of the next fetch, which is for exactly these partitions."""
        known, self._known = self._known if self.is_open else frozenset(), frozenset(wanted)
        return ShareSessionRequest(self.epoch, self._known - known, known - self._known)

    def answered(self) -> None:
        """Advance the session epoch, because the broker has answered a request without an error code for the whole response."""
        self.epoch = next_epoch(self.epoch)

    def lost(self) -> None:
        """Note that the session has ended, or may have ended. The next fetch opens a new one."""
        self.lost_before += self.is_open
        self.epoch, self._known = FIRST_EPOCH, frozenset()

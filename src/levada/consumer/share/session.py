"""The client's half of a share session with one broker (KIP-932).

A session lets a client name only the partitions that are new, or not wanted any more: the broker remembers the others. It also stands for
the records that the member has acquired there: when it ends, by its last request or with the connection, the broker gives them to others.
Both sides count the requests, so each notices when the other forgot:

    0        open a session, in place of the one there may be: name every partition, acknowledge nothing
    n > 0    name what is new, what to forget, and what is acknowledged
    -1       acknowledge for the last time, and close

One request at a time, ShareFetch or ShareAcknowledge: begin() or next_epoch, then answered() or lost().
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from levada.consumer.fetch.fetch_session import FIRST_EPOCH, next_epoch
from levada.consumer.group.consumer_heartbeat import Owned


class ShareSessionRequest(NamedTuple):
    """What one ShareFetch has to carry beside acknowledgements."""

    epoch: int
    to_add: frozenset[Owned]
    to_forget: frozenset[Owned]


class ShareSession:
    """See the module's theory."""

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.lost_before = 0
        """How many sessions there were with this broker that are over: what was acquired in them is not locked any more."""
        self._known: frozenset[Owned] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session, as far as this side knows. Without one nothing can be acknowledged."""
        return self.epoch != FIRST_EPOCH

    def begin(self, wanted: Collection[Owned]) -> ShareSessionRequest:
        """Say what the next fetch from exactly these partitions has to carry."""
        known, self._known = self._known if self.is_open else frozenset(), frozenset(wanted)
        return ShareSessionRequest(self.epoch, self._known - known, known - self._known)

    def answered(self) -> None:
        """A request was answered, and not with an error of the session."""
        self.epoch = next_epoch(self.epoch)

    def lost(self) -> None:
        """The session is over, or nobody knows whether it is: the next fetch opens one."""
        self.lost_before += self.is_open
        self.epoch, self._known = FIRST_EPOCH, frozenset()

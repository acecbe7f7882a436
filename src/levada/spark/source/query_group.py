"""The consumer group whose offsets follow a query, for tools that show a group's lag and for clients that take over where the query stands.

Nothing of the query depends on it: where it goes on is in its checkpoint. So what keeps offsets from being committed is a warning.
"""

from __future__ import annotations

import logging
import time

from levada.errors import GroupAuthorizationError, GroupError, KafkaError
from levada.spark.source.cluster import Cluster
from levada.spark.source.offsets import Offsets

logger = logging.getLogger(__name__)

PAUSE_S = 60.0
"""How long a group that did not take its offsets is left alone: each trigger would wait for it."""
NEVER = float("-inf")


class QueryGroup:
    """Commits how far a query has come. group_id: empty for a query without such a group."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._committed: Offsets = {}
        self._failed_at = NEVER

    def follow(self, offsets: Offsets, cluster: Cluster) -> None:
        """Commit the offsets up to which the query has processed all records, those that are new since the last time."""
        moved = {tp: offset for tp, offset in offsets.items() if self._committed.get(tp) != offset}
        if not self._group_id or not moved or time.monotonic() < self._failed_at + PAUSE_S:
            return
        try:
            cluster.commit(self._group_id, moved)
        except KafkaError as error:
            self._failed_at = time.monotonic()
            logger.warning("commitOffsets: the offsets of group '%s' stay behind the query: %s%s", self._group_id, error, _advice(error))
        else:
            self._committed.update(moved)


def _advice(error: KafkaError) -> str:
    if isinstance(error, GroupError) and not isinstance(error, GroupAuthorizationError):
        return "; a consumer of this group is running: it reads the same records; stop it, or give the query a kafka.group.id of its own"
    return f"; tried again in {PAUSE_S:.0f} s"

"""The consumer group for which a query commits its progress. Tools can show the group's lag, and consumers can continue after the query.

The query does not depend on this group: it continues from its checkpoint. So an error in committing is only logged, as a warning.
"""

from __future__ import annotations

import logging
import time

from levada.errors import GroupAuthorizationError, GroupError, KafkaError
from levada.spark.source.cluster import Cluster
from levada.spark.source.offsets import Offsets

logger = logging.getLogger(__name__)

PAUSE_S = 60.0
"""How long nothing is committed after a failed commit: each attempt delays a trigger."""
NEVER = float("-inf")


class QueryGroup:
    """Commits the progress of a query. group_id: "" for a query without commitOffsets."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._committed: Offsets = {}
        self._failed_at = NEVER

    def follow(self, offsets: Offsets, cluster: Cluster) -> None:
        """Commit the offsets that have changed since the last commit. offsets: the query has processed all records before them.

        Does nothing without a group, and for PAUSE_S seconds after a failure. An error is only logged.
        """
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

"""What a member of a group counts."""

from __future__ import annotations

from levada.base.measure import Measure


class GroupCounters:
    """rebalances: milliseconds from the first JoinGroup, or from a target of the coordinator's, to the assignment.

    failed: rebalances that ended without one. heard_ms: when the coordinator last answered a heartbeat, None before one. rebalanced_ms:
    when the last rebalance ended well.
    """

    def __init__(self) -> None:
        self.rebalances = Measure()
        self.failed = Measure()
        self.heard_ms: int | None = None
        self.rebalanced_ms: int | None = None

    def rebalanced(self, began_ms: int, now_ms: int) -> None:
        """A rebalance ended with an assignment."""
        self.rebalances.note(now_ms - began_ms, now_ms)
        self.rebalanced_ms = now_ms

"""A partition on its way to other nodes (KIP-455).

The replicas that are new are added to the others and copy the leader's log. Once all replicas of the target are in sync, the others go, and
one of the target leads from then on, if none did before. Until then it can be cancelled, and those that were added go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Reassignment(NamedTuple):
    """before: the nodes that had replicas when it began; target: those that shall have them, the preferred leader first."""

    before: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """The nodes that are new."""
        return tuple(node_id for node_id in self.target if node_id not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The nodes that go at the end."""
        return tuple(node_id for node_id in self.before if node_id not in self.target)

    @property
    def meanwhile(self) -> tuple[int, ...]:
        """The nodes that have replicas until it is done."""
        return self.target + self.removing

    def is_done(self, in_sync: Iterable[int]) -> bool:
        """Whether all replicas of the target are in sync."""
        return set(self.target) <= set(in_sync)

"""The assignors of classic groups. They are pure; the member that leads the group runs one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from levada.consumer.group.assignors.ranges import RangeAssignor
from levada.consumer.group.assignors.round_robin import RoundRobinAssignor
from levada.consumer.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from levada.groups import PartitionAssignor, RebalanceProtocol

BUILT_IN: Mapping[str, type[PartitionAssignor]] = {
    assignor.NAME: assignor for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


def assignors_of(chosen: Iterable[str | PartitionAssignor]) -> tuple[PartitionAssignor, ...]:
    """Return the assignors of partition.assignment.strategy, in order of preference. A name becomes a new assignor."""
    return tuple(BUILT_IN[each]() if isinstance(each, str) else each for each in chosen)


def common_protocol(assignors: Sequence[PartitionAssignor]) -> RebalanceProtocol:
    """Return the rebalance protocol of a member that offers these assignors.

    It is cooperative only if all of them support it: the coordinator chooses an assignor only after the member has decided what to revoke.
    """
    supported = frozenset.intersection(*(frozenset(assignor.PROTOCOLS) for assignor in assignors))
    return RebalanceProtocol.COOPERATIVE if RebalanceProtocol.COOPERATIVE in supported else RebalanceProtocol.EAGER

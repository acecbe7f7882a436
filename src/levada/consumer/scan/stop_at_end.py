"""The ends of partitions that a loop over a consumer sets while it runs (stop.at.end). Used under the engine's lock.

Ends that the program has passed to assign() stay. Records before those may not be skipped. The ends here only tell when to stop:
auto.offset.reset moves positions as usual.
"""

from __future__ import annotations

from collections.abc import Mapping

from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.types import TopicPartition


def bound(subscription: SubscriptionState, ends: Mapping[TopicPartition, int]) -> None:
    """Set end offsets for the partitions that have none. A position after its end offset is left to auto.offset.reset."""
    for state in _these(subscription, ends):
        end = ends[state.tp]
        if state.stop_offset is None and not (state.has_position and state.position > end):
            state.stop_at(end)
            state.stops_for_loop = True
    subscription.is_bounded = True


def unbound(subscription: SubscriptionState) -> None:
    """Remove the end offsets that bound() has set, because the loop has ended."""
    for state in subscription:
        _unbound(state)
    subscription.is_bounded = any(state.stop_offset is not None for state in subscription)


def beyond(subscription: SubscriptionState) -> list[TopicPartition]:
    """Return the partitions whose positions are after the end offsets that bound() has set."""
    return [state.tp for state in subscription if state.stops_for_loop and state.finished and state.position != state.stop_offset]


def unbound_beyond(subscription: SubscriptionState, ends: Mapping[TopicPartition, int]) -> bool:
    """Remove the end offset of each partition whose position is also after this newer end offset. Return whether there was such a
    partition.
    """
    found = [state for state in _these(subscription, ends) if state.position > ends[state.tp]]
    for state in found:
        _unbound(state)
    return bool(found)


def _these(subscription: SubscriptionState, ends: Mapping[TopicPartition, int]) -> list[PartitionState]:
    return [state for tp in ends if (state := subscription.find(tp)) is not None]


def _unbound(state: PartitionState) -> None:
    if state.stops_for_loop:
        state.stop_at(None)
        state.stops_for_loop = False

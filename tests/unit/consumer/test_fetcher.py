"""In which order partitions are asked for."""

from __future__ import annotations

from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.consumer.fetch.fetcher import Share
from levada.consumer.positions.subscription_state import Generations, PartitionState
from levada.types import TopicPartition

GENERATIONS = Generations()
A, B, C = (PartitionState(TopicPartition("t", number), 0, GENERATIONS) for number in range(3))


def test_F12_what_brought_something_is_asked_last() -> None:
    share = Share(ConnectionKey(1, Purpose.FETCH), 0)
    for state in (A, B, C, A):
        share.want(state)
    assert list(share.wanted.values()) == [B, C, A]
    share.hold(B)
    share.want(B)
    assert list(share.wanted.values()) == [C, A, B]


def test_what_is_not_asked_for_any_more_is_a_change() -> None:
    share = Share(ConnectionKey(1, Purpose.FETCH), 0)
    share.want(A)
    share.changed.clear()
    share.heard_ms = 7
    share.remove(A)
    assert (list(share.wanted), list(share.changed)) == ([], [A.tp])
    assert (A.source, A.last_heard_ms) == (None, 7)

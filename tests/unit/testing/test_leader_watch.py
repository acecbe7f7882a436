"""What of a gap between acknowledgements is the brokers', and what is the client's."""

from __future__ import annotations

from leader_watch import Sample, gaps_in
from levada.testing.history import Event, Op, Type


def acknowledged(partition: int, *times_ms: int) -> list[Event]:
    return [Event(at_ms, 1, Op.SEND, Type.OK, partition=partition) for at_ms in times_ms]


def samples(*unwritable: set[int]) -> list[Sample]:
    """One every 100 ms, from 0 on."""
    return [Sample(number * 100, frozenset(partitions)) for number, partitions in enumerate(unwritable)]


def test_the_longest_gap_of_each_partition_is_shared_out() -> None:
    events = acknowledged(0, 0, 50, 350, 400) + acknowledged(1, 0, 90, 400, 410)
    gaps = gaps_in(events, samples(set(), {0}, {0, 1}, {1}, set(), set()))
    assert [(gap.partition, *gap.span, gap.brokers_ms, gap.clients_ms) for gap in gaps] == [(1, 90, 400, 200, 110), (0, 50, 350, 200, 100)]


def test_what_lies_beyond_the_gap_does_not_count() -> None:
    (gap,) = gaps_in(acknowledged(0, 150, 380), samples({0}, {0}, set(), {0}, {0}, set()))
    assert (gap.brokers_ms, gap.clients_ms) == (50 + 80, 100)


def test_other_events_are_no_acknowledgements() -> None:
    events = [*acknowledged(0, 0, 300), Event(100, 1, Op.SEND, Type.INFO, partition=0), Event(200, 1, Op.COMMIT, Type.OK)]
    (gap,) = gaps_in(events, [])
    assert gap.span == (0, 300)
    assert str(gap) == "300 ms in partition 0, of which it could not be written for 0 ms"

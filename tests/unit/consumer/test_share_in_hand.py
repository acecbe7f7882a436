"""What a program has in its hands: decided once, told once, and handed out again where it was not looked at."""

from __future__ import annotations

from uuid import UUID

import pytest

from levada.consumer.share.acquired import Acquired, Batches, Chunk
from levada.consumer.share.delivered import InHand
from levada.consumer.share.offset_marks import Mark, Run
from levada.errors import IllegalStateError
from levada.types import AcknowledgeType, TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def chunk(*acquired: tuple[int, int, int], tp: TopicPartition = TP, node: int = 1) -> Chunk:
    return Chunk(tp, UUID(int=7), node, Batches(b"", check_crcs=True), tuple(Acquired(*part) for part in acquired), 1_000)


def given(*acquired: tuple[int, int, int], tp: TopicPartition = TP, hand: InHand | None = None, node: int = 1) -> InHand:
    hand = hand or InHand()
    made = chunk(*acquired, tp=tp, node=node)
    hand.put(made, [Run(first, last, Mark.UNDECIDED) for first, last, _ in acquired])
    return hand


def sent(hand: InHand) -> list[tuple[int, list[tuple[int, int, int]]]]:
    return [(part.node_id, [(run.first, run.last, int(run.mark)) for run in part.runs]) for part in hand.take_decided()]


def test_what_is_decided_is_sent_once() -> None:
    hand = given((0, 9, 1))
    hand.acknowledge([(TP, [(0, 4)])], ACCEPT)
    hand.acknowledge([(TP, [(7, 7)])], RELEASE)
    assert sent(hand) == [(1, [(0, 4, 1), (7, 7, 2)])]
    assert sent(hand) == []
    assert [(run.first, run.last) for _, run in hand.undecided()] == [(5, 6), (8, 9)]


def test_a_decision_may_be_changed_until_it_is_sent() -> None:
    hand = given((0, 0, 1))
    hand.acknowledge([(TP, [(0, 0)])], ACCEPT)
    hand.acknowledge([(TP, [(0, 0)])], RELEASE)
    assert sent(hand) == [(1, [(0, 0, 2)])]
    with pytest.raises(IllegalStateError, match="t-0: offset 0 cannot be acknowledged: this consumer did not get all of these records"):
        hand.acknowledge([(TP, [(0, 0)])], ACCEPT)


def test_one_offset_that_is_not_in_hand_leaves_all_as_they_were() -> None:
    hand = given((0, 4, 1))
    with pytest.raises(IllegalStateError, match="t-0: offsets 3 to 5"):
        hand.acknowledge([(TP, [(0, 1), (3, 5)])], ACCEPT)
    with pytest.raises(IllegalStateError, match="t-1: offset 0"):
        hand.acknowledge([(TP, [(0, 1)]), (OTHER, [(0, 0)])], ACCEPT)
    assert sent(hand) == []


def test_acknowledgements_go_to_the_node_that_each_record_came_from() -> None:
    hand = given((0, 4, 1))
    given((5, 9, 2), hand=hand, node=2)
    hand.acknowledge([(TP, [(0, 9)])], ACCEPT)
    assert sorted(sent(hand)) == [(1, [(0, 4, 1)]), (2, [(5, 9, 1)])]


def test_gaps_are_acknowledged_without_the_program() -> None:
    hand = InHand()
    hand.put(chunk((0, 9, 1)), [Run(0, 7, Mark.UNDECIDED), Run(8, 9, Mark.GAP)])
    assert sent(hand) == [(1, [(8, 9, 0)])]
    hand.acknowledge_rest(ACCEPT)
    assert sent(hand) == [(1, [(0, 7, 1)])]


def test_what_was_not_looked_at_is_handed_out_again_with_its_count() -> None:
    hand = given((0, 3, 1), (5, 6, 4))
    hand.acknowledge([(TP, [(0, 0)])], ACCEPT)
    (again,) = hand.put_back({TP: [Run(0, 9, Mark.UNDECIDED)]})
    assert again.acquired == (Acquired(1, 3, 1), Acquired(5, 6, 4))
    assert not list(hand.undecided())
    assert sent(hand) == [(1, [(0, 0, 1)])]


def test_only_the_last_call_is_taken_back() -> None:
    hand = given((0, 3, 1))
    hand.begin_call()
    given((4, 6, 1), hand=hand)
    assert [again.acquired for again in hand.take_back()] == [(Acquired(4, 6, 1),)]
    assert hand.take_back() == []
    assert [(run.first, run.last) for _, run in hand.undecided()] == [(0, 3)]


def test_a_renewed_record_stays_in_hand_and_comes_again() -> None:
    hand = given((0, 3, 1))
    hand.acknowledge([(TP, [(0, 1)])], RENEW)
    hand.acknowledge([(TP, [(2, 3)])], ACCEPT)
    assert sent(hand) == [(1, [(0, 1, 4), (2, 3, 1)])]
    assert hand.is_renewing
    with pytest.raises(IllegalStateError, match="while a renewal is on its way"):
        hand.acknowledge([(TP, [(0, 0)])], ACCEPT)
    hand.renewed(TP, [Run(0, 1, Mark.RENEW)], 5_000)
    assert (hand.is_renewing, hand.has_renewals) == (False, True)
    hand.acknowledge([(TP, [(0, 0)])], ACCEPT)
    (again,) = hand.take_renewed()
    assert (again.acquired, again.until_ms) == ((Acquired(1, 1, 1),), 5_000)
    assert sent(hand) == [(1, [(0, 0, 1)])]
    assert not hand.has_renewals


def test_a_renewal_that_was_refused_takes_the_record_out_of_hand() -> None:
    hand = given((0, 1, 1))
    hand.acknowledge([(TP, [(0, 1)])], RENEW)
    assert len(sent(hand)) == 1
    hand.renewed(TP, [Run(0, 1, Mark.RENEW)], None)
    assert not hand.has_renewals
    with pytest.raises(IllegalStateError, match="cannot be acknowledged"):
        hand.acknowledge([(TP, [(0, 0)])], ACCEPT)


def test_a_renewal_is_of_its_own_records_and_not_of_those_acquired_with_them() -> None:
    hand = given((0, 3, 1))
    hand.acknowledge([(TP, [(1, 2)])], RENEW)
    assert len(sent(hand)) == 1
    hand.renewed(TP, [Run(1, 2, Mark.RENEW)], 5_000)
    hand.acknowledge([(TP, [(0, 3)])], RENEW)
    renewed = {run.first: part.until_ms for part in hand.take_decided() for run in part.runs}
    assert renewed == {0: 1_000, 1: 5_000, 3: 1_000}


def test_at_the_end_nothing_is_renewed() -> None:
    hand = given((0, 1, 1))
    hand.acknowledge([(TP, [(0, 1)])], RENEW)
    hand.release_renewals()
    assert sent(hand) == [(1, [(0, 1, 2)])]


def test_what_was_acquired_once_more_belongs_to_the_newer_delivery() -> None:
    hand = given((0, 3, 1))
    given((2, 3, 2), hand=hand, node=2)
    hand.acknowledge_rest(ACCEPT)
    assert sorted(sent(hand)) == [(1, [(0, 1, 1)]), (2, [(2, 3, 1)])]

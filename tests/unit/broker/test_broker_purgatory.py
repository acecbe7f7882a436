from __future__ import annotations

from levada.base.clock import NEVER_MS
from levada.broker.node.purgatory import Delayed, Purgatory


class Operation:
    def __init__(self, *keys: str, owner: str = "me") -> None:
        self.ready = False
        self.completed_at: list[int] = []
        self.delayed = Delayed(lambda: self.ready, self.completed_at.append, keys, owner)


def test_an_operation_is_completed_once_when_a_key_is_woken_and_it_is_ready() -> None:
    purgatory, operation = Purgatory(), Operation("a", "b")
    purgatory.add(operation.delayed, 100)

    purgatory.wake("a", 1)
    assert operation.completed_at == []

    operation.ready = True
    purgatory.wake("other", 2)
    purgatory.wake("b", 3)
    purgatory.wake("a", 4)
    purgatory.expire(200)
    assert operation.completed_at == [3]
    assert len(purgatory) == 0


def test_an_operation_is_completed_at_its_deadline_although_it_is_not_ready() -> None:
    purgatory, early, late = Purgatory(), Operation("a"), Operation("a")
    purgatory.add(late.delayed, 100)
    purgatory.add(early.delayed, 50)

    assert purgatory.next_deadline_ms() == 50
    purgatory.expire(49)
    assert early.completed_at == []
    purgatory.expire(50)
    assert (early.completed_at, late.completed_at) == ([50], [])
    assert purgatory.next_deadline_ms() == 100


def test_a_cancelled_operation_is_never_completed() -> None:
    purgatory, mine, theirs = Purgatory(), Operation("a", owner="me"), Operation("a", owner="them")
    for operation in (mine, theirs):
        operation.ready = True
        purgatory.add(operation.delayed, 10)

    purgatory.cancel("me")
    purgatory.wake("a", 1)
    purgatory.expire(20)
    assert (mine.completed_at, theirs.completed_at) == ([], [1])
    assert purgatory.next_deadline_ms() == NEVER_MS


def test_completing_one_operation_may_cancel_another_of_the_same_key() -> None:
    purgatory = Purgatory()
    second = Operation("a", owner="second")
    second.ready = True
    first = Delayed(lambda: True, lambda now_ms: purgatory.cancel("second"), ("a",), "first")
    purgatory.add(first, 10)
    purgatory.add(second.delayed, 10)

    purgatory.wake("a", 1)
    assert second.completed_at == []

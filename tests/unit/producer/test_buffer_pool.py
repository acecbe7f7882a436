"""Memory is counted, shared fairly and always given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import ClosedError
from levada.producer.append.buffer_pool import BufferPool, Ticket


def test_B1_memory_goes_out_and_comes_back() -> None:
    pool = BufferPool(100)
    assert pool.try_allocate(60)
    assert not pool.try_allocate(60)
    assert pool.available == 40
    pool.release(60)
    assert pool.try_allocate(100)


def test_B2_more_than_there_is_would_wait_for_ever() -> None:
    pool = BufferPool(100)
    assert not pool.try_allocate(101)
    with pytest.raises(ValueError, match=r"101 .*buffer\.memory=100"):
        pool.enqueue(101)


def test_B4_the_first_in_the_queue_is_served_first_though_others_want_less() -> None:
    pool = BufferPool(100)
    assert pool.try_allocate(100)
    large, small = pool.enqueue(80), pool.enqueue(10)
    pool.release(50)
    assert not large.promise.done
    assert not small.promise.done
    assert not pool.try_allocate(1), "no request overtakes the queue"
    pool.release(30)
    assert large.promise.done
    assert not small.promise.done
    pool.release(20)
    assert small.promise.result() == 10
    assert pool.queued == 0
    assert pool.available == 10


def test_B5_a_waiter_that_gives_up_returns_the_memory_it_had() -> None:
    pool = BufferPool(100)
    assert pool.try_allocate(100)
    first, second = pool.enqueue(80), pool.enqueue(40)
    pool.release(40)
    pool.cancel(first)
    assert second.promise.done, "B6: the next in the queue gets it at once"
    assert pool.redeem(second)
    pool.cancel(second)
    assert pool.available == 0, "redeemed memory is a charge like any other"
    pool.release(40)
    pool.release(60)
    assert pool.available == 100


def test_A2_memory_that_came_too_late_to_be_wanted_goes_back() -> None:
    pool = BufferPool(100)
    assert pool.try_allocate(100)
    ticket = pool.enqueue(50)
    assert not pool.redeem(ticket)
    pool.release(100)
    assert ticket.promise.done
    pool.cancel(ticket)
    pool.cancel(ticket)
    assert pool.available == 100


def test_B9_close_fails_present_and_later_waiters() -> None:
    pool = BufferPool(100)
    assert pool.try_allocate(70)
    waiting = pool.enqueue(80)
    pool.close(ClosedError("closed"))
    assert isinstance(waiting.promise.error, ClosedError)
    with pytest.raises(ClosedError):
        pool.try_allocate(1)
    pool.release(70)
    assert pool.available == 100


@given(st.lists(st.tuples(st.sampled_from(["take", "queue", "release", "cancel"]), st.integers(1, 100), st.integers(0, 9)), max_size=60))
def test_B7_no_byte_is_lost_or_made_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    pool = BufferPool(100)
    held: list[int] = []
    tickets: list[Ticket] = []
    for step, size, which in steps:
        if step == "take" and pool.try_allocate(size):
            held.append(size)
        elif step == "queue":
            tickets.append(pool.enqueue(size))
        elif step == "release" and held:
            pool.release(held.pop(which % len(held)))
        elif step == "cancel" and tickets:
            pool.cancel(tickets.pop(which % len(tickets)))
        for ticket in [ticket for ticket in tickets if ticket.promise.done]:
            assert pool.redeem(ticket)
            tickets.remove(ticket)
            held.append(ticket.size)
        assert pool.available + sum(held) + sum(ticket.granted for ticket in tickets) == 100
        assert not tickets or pool.available == 0, "no request waits while there is memory"

"""The ring beside a list that is searched from its beginning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import levada as lv
from levada.errors import ClosedError, NotAcknowledgedError

FAULT = RuntimeError("refused")
FULL = -1


class Model:
    """All ids that were ever put, with what became of each."""

    def __init__(self, size: int, retain: bool) -> None:
        self.size, self.retain = size, retain
        self.ids: list[int] = []
        self.states: list[str] = []
        self.taken = 0

    @property
    def safe(self) -> int:
        """How many ids from the beginning are marked."""
        return next((number for number, state in enumerate(self.states) if state != "marked"), len(self.states))

    @property
    def first_free(self) -> int:
        return self.taken if self.retain else self.safe

    def settle(self, sequence: int, state: str) -> bool:
        is_pending = 0 <= sequence < len(self.ids) and self.states[sequence] == "pending"
        if is_pending:
            self.states[sequence] = state
        return is_pending


class AckBufferMachine(RuleBasedStateMachine):
    @initialize(size=st.integers(1, 6), retain=st.booleans(), shift=st.integers(0, 3))
    def begin(self, size: int, retain: bool, shift: int) -> None:
        self.buffer = lv.AckBuffer(size, retain=retain)
        self.model = Model(size, retain)
        self.last_safe: Any = None
        self.marked: set[int] = set()

    @rule(step=st.integers(1, 3))
    def put(self, step: int) -> None:
        model = self.model
        id = (model.ids[-1] if model.ids else 0) + step
        if len(model.ids) - model.first_free < model.size:
            assert self.buffer._offer(id, 0.0) == len(model.ids)
            model.ids.append(id)
            model.states.append("pending")
        elif "failed" in model.states:
            with pytest.raises(NotAcknowledgedError):
                self.buffer._offer(id, 0.0)
        else:
            assert self.buffer._offer(id, 0.0) == FULL

    @precondition(lambda self: self.model.ids)
    @rule(data=st.data())
    def put_an_old_id(self, data: st.DataObject) -> None:
        model = self.model
        sequence = data.draw(st.integers(0, len(model.ids) - 1))
        if model.states[sequence] == "failed":
            assert self.buffer._offer(model.ids[sequence], 0.0) == sequence
            model.states[sequence] = "pending"
        else:
            with pytest.raises(ValueError, match="must rise"):
                self.buffer._offer(model.ids[sequence], 0.0)

    def near(self, data: st.DataObject) -> int:
        return data.draw(st.integers(self.model.first_free - 2, len(self.model.ids) + 1))

    @rule(data=st.data())
    def mark(self, data: st.DataObject) -> None:
        sequence = self.near(data)
        marked = self.buffer.mark(sequence)
        assert marked == self.model.settle(sequence, "marked")
        assert not (marked and sequence in self.marked), "a sequence marks once"
        self.marked |= {sequence} if marked else set()

    @rule(data=st.data())
    def mark_many(self, data: st.DataObject) -> None:
        sequences = [self.near(data) for _ in range(data.draw(st.integers(0, 5)))]
        assert self.buffer.mark_many(sequences) == sum(self.model.settle(sequence, "marked") for sequence in sequences)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        sequence = self.near(data)
        assert self.buffer.fail(sequence, FAULT) == self.model.settle(sequence, "failed")

    @precondition(lambda self: self.model.retain)
    @rule()
    def take(self) -> None:
        model = self.model
        if model.taken < model.safe:
            assert self.buffer._take() == model.ids[model.taken]
            model.taken += 1
        elif model.states[model.safe : model.safe + 1] == ["failed"]:
            with pytest.raises(NotAcknowledgedError):
                self.buffer._take()
        else:
            assert self.buffer._take() is None

    @rule()
    def drain(self) -> None:
        self.model.taken = self.model.safe
        assert self.buffer.drain() == self.buffer.safe

    @invariant()
    def safe_is_the_largest_id_with_everything_before_it_marked(self) -> None:
        model, buffer = self.model, self.buffer
        assert buffer.safe == (model.ids[model.safe - 1] if model.safe else None)
        assert buffer.in_flight == len(model.ids) - model.safe
        assert len(buffer) == len(model.ids) - model.first_free
        assert self.last_safe is None or buffer.safe >= self.last_safe
        self.last_safe = buffer.safe

    @invariant()
    def the_first_failure_is_told(self) -> None:
        failed = [sequence for sequence, state in enumerate(self.model.states) if state == "failed"]
        failure = self.buffer.failure
        assert (failure.sequence if failure else None) == (failed[0] if failed else None)
        assert (failure.id if failure else None) == (self.model.ids[failed[0]] if failed else None)

    def teardown(self) -> None:
        if not hasattr(self, "buffer"):
            return
        safe = self.buffer.safe
        self.buffer.close()
        assert self.buffer.mark_many(range(len(self.model.ids))) == 0
        assert self.buffer.drain() == safe
        with pytest.raises(ClosedError):
            self.buffer._offer(1 << 40, 0.0)


AckBufferMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)


def test_Q8_the_ring_agrees_with_a_list_that_is_searched() -> None:
    AckBufferMachine.TestCase("runTest").runTest()

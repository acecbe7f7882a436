"""What is in doubt after transactions, as far as the positions of one partition tell."""

from __future__ import annotations

import pytest

from levada.api.sent_offsets import Read, Sending, SentOffsets
from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.errors import IllegalStateError
from levada.types import OffsetAndMetadata, TopicPartition

TP = TopicPartition("t", 0)


class Reader:
    """A consumer of one partition, which begins at 0."""

    def __init__(self) -> None:
        self.subscription = SubscriptionState()
        self.sent = SentOffsets()
        self.assign()

    def assign(self) -> None:
        self.subscription.assign((), 0)
        self.subscription.assign([TP], 0)
        self.state.move_to(0)

    @property
    def state(self) -> PartitionState:
        return self.subscription.state(TP)

    def read_to(self, offset: int) -> None:
        self._note_abort()
        self.state.position = offset

    def send(self, transaction: Sending) -> Sending:
        self._note_abort()
        self.sent.send_all(transaction, self._reads(), {TP: OffsetAndMetadata(self.state.position)})
        return transaction

    def _note_abort(self) -> None:
        if self.sent.lacks_abort:
            self.sent.note_abort(self._reads())

    def _reads(self) -> list[Read]:
        return [Read(self.state, self.state.origin, self.state.done_to, self.state.position)]


def after_abort(transaction: Sending) -> Sending:
    """Return the producer's next transaction after one that was aborted before it sent anything."""
    aborted = Sending(transaction.aborted_at)
    aborted.not_committed()
    return Sending(aborted.aborted_at)


def test_T6_what_was_committed_before_a_reset_says_nothing_of_what_is_read_after_it() -> None:
    """The log was cut, and the program did not ask for it."""
    reader = Reader()
    reader.read_to(100)
    transaction = reader.send(Sending())
    transaction.committed()
    reader.state.move_to(0)
    reader.read_to(50)
    following = after_abort(transaction)
    reader.read_to(100)
    with pytest.raises(IllegalStateError, match="were read before this producer's last transaction was aborted"):
        reader.send(following)


def test_T6_a_poll_that_was_broken_off_leaves_what_was_committed_done() -> None:
    reader = Reader()
    reader.read_to(100)
    transaction = reader.send(Sending())
    transaction.committed()
    reader.read_to(120)
    reader.state.move_back(100, -1)
    following = after_abort(transaction)
    reader.read_to(150)
    reader.send(following)


def test_T6_a_commit_that_comes_after_a_seek_says_nothing_of_what_is_read_since() -> None:
    reader = Reader()
    reader.read_to(100)
    reader.state.move_to(0)
    reader.state.committed(100)
    reader.read_to(50)
    following = after_abort(Sending())
    reader.read_to(80)
    with pytest.raises(IllegalStateError, match="were read before"):
        reader.send(following)


def test_a_partition_that_was_given_up_is_forgotten() -> None:
    reader = Reader()
    transaction = Sending()
    for _ in range(3):
        reader.read_to(10)
        transaction = after_abort(transaction)
        reader.read_to(20)
        reader.assign()
    after_abort(transaction)
    reader.read_to(1)
    assert len(reader.sent._undone) == 0


def test_a_commit_after_the_partition_was_given_up_or_sought_changes_nothing() -> None:
    reader = Reader()
    reader.read_to(10)
    transaction = reader.send(Sending())
    reader.sent.moved([TP])
    transaction.committed()
    reader.read_to(20)
    following = after_abort(transaction)
    reader.read_to(30)
    with pytest.raises(IllegalStateError, match="were read before"):
        reader.send(following)


def test_T6_an_id_that_is_used_again_answers_for_what_was_left_open() -> None:
    """The producer before was not closed, and does not know yet that it is fenced."""
    reader = Reader()
    left_open = Sending.begin("used-again")
    reader.read_to(10)
    other, following = Sending.begin("another-id"), Sending.begin("used-again")
    reader.read_to(20)
    with pytest.raises(IllegalStateError, match="were read before"):
        reader.send(following)
    assert left_open.aborted_at == following.aborted_at > other.aborted_at
    reader.send(other)


def test_T6_an_abort_counts_that_others_follow_before_more_is_read() -> None:
    """Workers of one process abort one after another, and a consumer is told of all at its next call."""
    reader = Reader()
    reader.read_to(10)
    following = after_abort(Sending())
    after_abort(Sending())
    reader.read_to(20)
    with pytest.raises(IllegalStateError, match="were read before"):
        reader.send(following)


def test_a_transaction_that_has_ended_keeps_no_consumer() -> None:
    for end in (Sending.committed, Sending.not_committed):
        reader = Reader()
        reader.read_to(10)
        transaction = reader.send(Sending())
        end(transaction)
        assert not transaction._consumers

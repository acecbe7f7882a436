"""The model's coordinator answers as Kafka 3.9.2 (TV1) and 4.4.0 (TV2) did when they were asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .coordinator import (
    CLASSIC_END,
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
    RAISING_END,
    UNSTABLE_OFFSET_COMMIT,
    Brokers,
    Coordinator,
    ProducerId,
    Row,
)

ROW = Row(0, 0)


class Opened:
    """A transaction that one process has opened, and another one ends."""

    def __init__(self, version: int, brokers: Brokers) -> None:
        self.kafka = Coordinator(brokers)
        self.version = version
        self.producer: ProducerId = self.kafka.init_producer_id("t").value
        self.begin()

    def begin(self) -> None:
        if self.kafka.brokers is not Brokers.TV2:
            assert self.kafka.add_partitions("t", self.producer).error == NONE
        assert self.kafka.produce("t", self.producer, 1, (ROW,)).error == NONE

    def end(self, version: int = 0, commit: bool = True) -> str:
        answer = self.kafka.end_txn("t", self.producer, commit, version or self.version)
        self.kafka.write_markers()
        return answer.error

    def initialize(self) -> None:
        while self.kafka.init_producer_id("t").error == CONCURRENT_TRANSACTIONS:
            self.kafka.write_markers()


def timed_out(opened: Opened) -> str:
    opened.kafka.abort_by_coordinator("t")
    opened.kafka.write_markers()
    return opened.end()


def aborted(opened: Opened) -> str:
    opened.end(commit=False)
    return opened.end()


def initialized(opened: Opened) -> str:
    opened.initialize()
    return opened.end()


def committed_and_initialized(opened: Opened) -> str:
    opened.end()
    opened.initialize()
    return opened.end()


def expired(opened: Opened) -> str:
    opened.end()
    opened.kafka.expire("t")
    return opened.end()


def by_the_other_version(opened: Opened) -> str:
    opened.end()
    return opened.end(CLASSIC_END + RAISING_END - opened.version)


def repeated(opened: Opened) -> str:
    opened.end()
    return opened.end()


ANSWERS: list[tuple[Callable[[Opened], str], tuple[str | None, ...]]] = [
    (Opened.end, (NONE, NONE, NONE)),
    (repeated, (NONE, NONE, NONE)),
    (timed_out, (PRODUCER_FENCED, INVALID_TXN_STATE, PRODUCER_FENCED)),
    (initialized, (PRODUCER_FENCED, PRODUCER_FENCED, PRODUCER_FENCED)),
    (committed_and_initialized, (PRODUCER_FENCED, PRODUCER_FENCED, PRODUCER_FENCED)),
    (aborted, (INVALID_TXN_STATE, INVALID_TXN_STATE, INVALID_TXN_STATE)),
    (expired, (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING)),
    (by_the_other_version, (None, PRODUCER_FENCED, INVALID_TXN_STATE)),
]


@pytest.mark.parametrize(("happens", "answers"), ANSWERS, ids=lambda value: getattr(value, "__name__", ""))
def test_another_process_ends_a_transaction(happens: Callable[[Opened], str], answers: tuple[str | None, ...]) -> None:
    ways = [(CLASSIC_END, Brokers.TV1), (RAISING_END, Brokers.TV2), (CLASSIC_END, Brokers.TV2)]
    asked = [None if answer is None else happens(Opened(*way)) for way, answer in zip(ways, answers, strict=True)]
    assert asked == list(answers)


def test_a_late_end_of_version_4_commits_the_next_transaction() -> None:
    for version, brokers, answer in ((CLASSIC_END, Brokers.TV1, NONE), (RAISING_END, Brokers.TV2, PRODUCER_FENCED)):
        opened = Opened(version, brokers)
        first = opened.producer
        opened.producer = opened.kafka.end_txn("t", first, True, version).value
        opened.kafka.write_markers()
        opened.begin()
        assert opened.kafka.end_txn("t", first, True, version).error == answer


def test_a_pending_offset_is_not_stable_until_the_markers_are_written() -> None:
    opened = Opened(RAISING_END, Brokers.TV2)
    opened.kafka.txn_offset_commit("t", opened.producer, "group", "entry")
    assert opened.kafka.offset_fetch("group", True).error == UNSTABLE_OFFSET_COMMIT
    opened.kafka.end_txn("t", opened.producer, True, RAISING_END)
    assert opened.kafka.offset_fetch("group", True).error == UNSTABLE_OFFSET_COMMIT
    assert not opened.kafka.visible
    opened.kafka.write_markers()
    assert opened.kafka.offset_fetch("group", True) == (NONE, "entry")
    assert opened.kafka.visible == {ROW: 1}


def test_who_was_replaced_cannot_initialize_as_the_present_producer() -> None:
    kafka = Coordinator(Brokers.TV1)
    first = kafka.init_producer_id("t").value
    second = kafka.init_producer_id("t", first).value
    assert kafka.init_producer_id("t", first).value == second, "a repeated request gets the same answer (KIP-360)"
    kafka.init_producer_id("t")
    assert kafka.init_producer_id("t", second).error == PRODUCER_FENCED


def test_a_late_batch_of_an_old_epoch_is_refused_only_by_brokers_that_verify() -> None:
    for brokers, answer in ((Brokers.TV1, PRODUCER_FENCED), (Brokers.UNVERIFIED, NONE)):
        kafka = Coordinator(brokers)
        first = kafka.init_producer_id("t").value
        kafka.init_producer_id("t")
        assert kafka.produce("t", first, 1, (ROW,)).error == answer

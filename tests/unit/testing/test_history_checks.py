"""The history checker against histories made by hand: each anomaly is found, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from levada.errors import (
    ClosedError,
    DeliveryTimeout,
    KafkaError,
    MetadataTimeout,
    Persisted,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    not_written,
)
from levada.testing.history import CHECKS, Event, Found, History, Op, Recorder, Report, Type, check, outcome_of, value_of

TOPIC = "t"


class Story:
    """A run told by hand: each event is a second after the one before. Records are 1, 2, ... of process 1 unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now_ms = 0
        self.log: list[Found] = []
        self.hidden: set[int] = set()

    def tell(self, op: Op, kind: Type, *, process: int = 1, **fields: Any) -> None:
        self.now_ms += 1000
        self.events.append(Event(self.now_ms, process, op, kind, **fields))

    def send(
        self, number: int, outcome: Type | None = Type.OK, *, at: int | None = None, told: int | None = None, process: int = 1,
        partition: int = 0, txn: int = -1, within_ms: int = 10_000,
    ) -> None:  # fmt: skip
        """at: its offset in the log. told: the offset that was acknowledged, default the same. outcome None: no end."""
        value = value_of(process, number)
        where = {"value": value, "topic": TOPIC, "partition": partition, "transaction": txn}
        self.tell(Op.SEND, Type.INVOKE, process=process, within_ms=within_ms, **where)
        if at is not None:
            self.stands(number, at, partition=partition, process=process)
        if outcome is Type.OK:
            offset = told if told is not None else at if at is not None else -1
            self.tell(Op.SEND, Type.OK, process=process, offset=offset, **where)
        elif outcome is not None:
            self.tell(Op.SEND, outcome, process=process, **where)

    def stands(self, number: int, at: int, *, partition: int = 0, process: int = 1) -> None:
        self.log.append(Found(TOPIC, partition, at, value_of(process, number)))

    def hide(self, *numbers: int) -> None:
        """The committed reader does not return these."""
        self.hidden |= {value_of(1, number) for number in numbers}

    def begin(self, txn: int) -> None:
        self.tell(Op.BEGIN, Type.INVOKE, transaction=txn)
        self.tell(Op.BEGIN, Type.OK, transaction=txn)

    def end(self, op: Op, txn: int, outcome: Type | None = Type.OK) -> None:
        self.tell(op, Type.INVOKE, transaction=txn, within_ms=10_000)
        if outcome is not None:
            self.tell(op, outcome, transaction=txn)

    def poll(self, number: int, at: int) -> None:
        self.tell(Op.POLL, Type.OK, process=9, read=(Found(TOPIC, 0, at, value_of(1, number)),))

    def report(self, skip: Iterable[str] = ()) -> Report:
        committed = [found for found in self.log if found.value not in self.hidden]
        return check(History.of(self.events), log=self.log, committed=committed, skip=tuple(skip))


def clean(story: Story) -> None:
    """Three records in two partitions, and one whose outcome is unknown."""
    story.send(1, at=0)
    story.send(2, at=0, partition=1)
    story.send(3, at=1)
    story.send(4, Type.INFO)


def unknown_and_written(story: Story) -> None:
    story.send(1, Type.INFO, at=0)


def refused(story: Story) -> None:
    story.send(1, Type.FAIL)


def two_processes_interleaved(story: Story) -> None:
    story.send(1, at=1, process=2)
    story.send(1, at=0, process=1)
    story.send(2, at=2, process=1)


def a_gap_of_offsets(story: Story) -> None:
    """Markers and aborted records stand between them."""
    story.send(1, at=0)
    story.send(2, at=7)


def acknowledged_without_an_offset(story: Story) -> None:
    """The broker remembered that it has the batch, and not where."""
    story.send(1, at=0, told=-1)


def committed_transaction(story: Story) -> None:
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.send(2, at=1, txn=1)
    story.end(Op.COMMIT, 1)
    story.poll(1, at=0)


def aborted_transaction(story: Story) -> None:
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.end(Op.ABORT, 1)
    story.hide(1)


def unknown_commit(seen: bool) -> Callable[[Story], None]:
    def tell(story: Story) -> None:
        story.begin(1)
        story.send(1, at=0, txn=1)
        story.send(2, at=1, txn=1)
        story.end(Op.COMMIT, 1, Type.INFO)
        if not seen:
            story.hide(1, 2)

    tell.__name__ = f"unknown_commit_{'seen' if seen else 'hidden'}"
    return tell


def commit_repeated_after_an_unknown_outcome(story: Story) -> None:
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.end(Op.COMMIT, 1, Type.INFO)
    story.end(Op.COMMIT, 1)


def crashed_in_a_transaction(story: Story) -> None:
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.send(2, None, txn=1)
    story.tell(Op.CRASH, Type.OK)
    story.hide(1)
    story.now_ms += 1_000_000
    story.tell(Op.PROCESS, Type.INVOKE, process=2)


def failed_send_in_an_aborted_transaction(story: Story) -> None:
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.send(2, Type.FAIL, txn=1)
    story.end(Op.ABORT, 1)
    story.hide(1)


def a_young_operation(story: Story) -> None:
    """It has not ended, and still has time."""
    story.send(1, None, within_ms=60_000)


def slow_within_bounds(story: Story) -> None:
    story.send(1, at=0, within_ms=500)


def process_within_bounds(story: Story) -> None:
    story.tell(Op.PROCESS, Type.INVOKE, figures={"rss_bytes": 50, "rss_bound_bytes": 100, "fds": 5, "threads": 2})
    story.tell(Op.PROCESS, Type.INFO, figures={"rss_bytes": 100, "fds": 50, "threads": 9})
    story.tell(Op.PROCESS, Type.OK, figures={"rss_bytes": 90, "fds": 5, "threads": 2})


LEGAL = [
    clean, unknown_and_written, refused, two_processes_interleaved, a_gap_of_offsets, acknowledged_without_an_offset, committed_transaction,
    aborted_transaction, unknown_commit(True), unknown_commit(False), commit_repeated_after_an_unknown_outcome, crashed_in_a_transaction,
    failed_send_in_an_aborted_transaction, a_young_operation, slow_within_bounds, process_within_bounds,
]  # fmt: skip


@pytest.mark.parametrize("tell", LEGAL, ids=lambda tell: tell.__name__)
def test_what_is_legal_is_not_reported(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    story.report().require_clean()


def found(story: Story) -> list[str]:
    return [str(finding) for finding in story.report().findings]


def test_X_K1_an_acknowledged_record_that_the_log_lacks() -> None:
    story = Story()
    story.send(1, at=0)
    story.send(2, told=1)
    assert found(story) == [
        "K1: 1:2 was acknowledged and is not in the log\n"
        "    send begun at 2000 ms, ok at 3000 ms\n"
        "    acknowledged: t-0@1",
    ]  # fmt: skip


def test_X_K1_an_acknowledged_record_that_readers_do_not_get() -> None:
    story = Story()
    story.send(1, at=0)
    story.hide(1)
    assert "is in the log at t-0@0, and the committed reader did not return it" in found(story)[0]


def test_X_K1_a_committed_transaction_of_which_nothing_is_visible() -> None:
    story = Story()
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.end(Op.COMMIT, 1)
    story.hide(1)
    assert story.report().violated == {"K1"}


def test_X_K1_the_log_keeps_records_of_aborted_transactions() -> None:
    story = Story()
    story.begin(1)
    story.send(1, told=0, txn=1)
    story.end(Op.ABORT, 1)
    assert story.report().violated == {"K1"}


def test_X_K2_a_value_at_two_offsets() -> None:
    story = Story()
    story.send(1, at=0)
    story.stands(1, at=1)
    story.hide(1)
    assert "K2: the log has 1:1 2 times: t-0@0, t-0@1" in found(story)[1]
    assert story.report(skip=["K1", "K2"]).findings == ()


def test_X_K2_a_value_in_two_partitions() -> None:
    story = Story()
    story.send(1, at=0, partition=-1, told=-1)
    story.log[:] = [Found(TOPIC, 0, 0, value_of(1, 1)), Found(TOPIC, 1, 0, value_of(1, 1))]
    assert story.report().violated == {"K2"}


def test_X_K2_a_reader_that_returns_a_record_twice() -> None:
    story = Story()
    story.send(1, at=0)
    twice = check(History.of(story.events), log=story.log, committed=story.log * 2)
    assert [finding.what for finding in twice.findings] == ["the committed reader has 1:1 2 times: t-0@0, t-0@0"]


def test_X_K3_two_records_in_the_wrong_order() -> None:
    story = Story()
    story.send(1, at=1)
    story.send(2, at=0)
    story.send(3, at=2)
    assert found(story) == ["K3: the records of process 1 in t-0 are not in the order of sending\n    1:2 at t-0@0\n    1:1 at t-0@1"]


def test_X_K3_a_copy_is_no_reordering() -> None:
    story = Story()
    story.send(1, at=0)
    story.send(2, at=1)
    story.stands(1, at=2)
    assert story.report(skip=["K2"]).findings == ()


def test_X_K4_the_acknowledged_offset_is_not_that_of_the_log() -> None:
    story = Story()
    story.send(1, at=0)
    story.send(2, at=1, told=0)
    (finding,) = story.report().findings
    assert (finding.check, finding.what) == ("K4", "1:2 was acknowledged at t-0@0 and stands at t-0@1")


def test_X_K4_an_acknowledgement_beyond_the_log() -> None:
    story = Story()
    story.send(1, at=0, told=5)
    (finding,) = story.report().findings
    assert (finding.check, finding.what) == ("K4", "1:1 was acknowledged at t-0@5 and stands at t-0@0")


def test_X_K4_a_poll_saw_something_else() -> None:
    story = Story()
    story.send(1, at=0)
    story.send(2, at=1)
    story.poll(2, at=0)
    (finding,) = story.report().findings
    assert (finding.check, finding.what) == ("K4", "t-0@0 holds 2 values")
    assert finding.evidence == ("the log: 1:1", "process 9 at 4000 ms: 1:2")


def test_X_K4_a_record_that_nobody_sent() -> None:
    story = Story()
    story.stands(1, at=0)
    assert found(story) == ["K4: t-0@0 holds 1:1, which nobody sent"]


def test_X_K4_a_record_in_another_partition_than_it_was_sent_to() -> None:
    story = Story()
    story.send(1, Type.INFO, partition=0)
    story.stands(1, at=0, partition=1)
    assert "t-1@0 holds 1:1, which was sent to t-0" in found(story)[0]


def test_X_K5_a_failed_record_that_is_in_the_log() -> None:
    story = Story()
    story.send(1, Type.FAIL, at=0)
    assert "1:1 failed with persisted: no, and the log has it at t-0@0" in found(story)[0]


@pytest.mark.parametrize(("op", "outcome"), [(Op.ABORT, Type.OK), (Op.COMMIT, Type.FAIL), (Op.ABORT, None)])
def test_X_K5_a_record_of_an_aborted_transaction(op: Op, outcome: Type | None) -> None:
    story = Story()
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.end(op, 1, outcome)
    assert "the committed reader returned 1:1 at t-0@0, whose transaction 0:1 was not committed" in found(story)[0]


def test_X_K5_a_poll_returned_an_aborted_record() -> None:
    story = Story()
    aborted_transaction(story)
    story.poll(1, at=0)
    assert [finding.check for finding in story.report().findings] == ["K5"]


def test_X_K6_a_record_returned_before_its_commit_was_asked_for() -> None:
    story = Story()
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.poll(1, at=0)
    story.end(Op.COMMIT, 1)
    assert "process 9 was given 1:1 at t-0@0 before its commit was asked for" in found(story)[0]


@pytest.mark.parametrize("outcome", [Type.OK, Type.INFO])
def test_X_K7_a_part_of_a_transaction(outcome: Type) -> None:
    story = Story()
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.send(2, at=0, txn=1, partition=1)
    story.end(Op.COMMIT, 1, outcome)
    story.hide(2)
    (torn,) = [finding for finding in story.report().findings if finding.check == "K7"]
    assert "1 of 2 records are visible" in torn.what
    assert torn.evidence[:2] == ("visible: 1:1 at t-0@0", "not visible: 1:2 at t-1@0")


def test_X_K7_a_commit_that_succeeded_without_a_record_whose_outcome_was_unknown() -> None:
    story = Story()
    story.begin(1)
    story.send(1, at=0, txn=1)
    story.send(2, Type.INFO, txn=1)
    story.end(Op.COMMIT, 1)
    assert story.report().violated == {"K7"}


def test_X_K12_an_operation_that_took_too_long() -> None:
    story = Story()
    story.tell(Op.SEND, Type.INVOKE, value=value_of(1, 1), topic=TOPIC, within_ms=10_000)
    story.now_ms += 10_001
    story.tell(Op.SEND, Type.INFO, value=value_of(1, 1), topic=TOPIC)
    assert found(story) == ["K12: sending 1:1 to t took 11001 ms, and may take 10000 ms\n    send begun at 0 ms, info at 11001 ms"]


def test_X_K12_an_operation_that_never_ends() -> None:
    story = Story()
    story.begin(1)
    story.end(Op.COMMIT, 1, None)
    story.now_ms += 20_000
    story.poll(1, at=0)
    assert any(line.startswith("K12: commit of transaction 0:1 has not ended 21000 ms later") for line in found(story))


def test_X_K12_an_outcome_that_was_never_told_before_the_process_closed() -> None:
    story = Story()
    story.send(1, None, within_ms=60_000)
    story.tell(Op.PROCESS, Type.OK)
    assert "never ended, although process 1 closed at 1000 ms" in found(story)[0]


@pytest.mark.parametrize(
    ("figures", "finding"),
    [
        ({"rss_bytes": 101}, "takes 101 bytes at 1000 ms, and may take 100"),
        ({"fds": 6}, "has 6 fds after close, and had 5 before"),
        ({"threads": 3}, "has 3 threads after close, and had 2 before"),
        ({"tasks": 1}, "has 1 tasks after close, and had 0 before"),
    ],
)
def test_X_K13_a_process_that_grew(figures: dict[str, int], finding: str) -> None:
    story = Story()
    story.tell(Op.PROCESS, Type.INVOKE, figures={"rss_bytes": 50, "rss_bound_bytes": 100, "fds": 5, "threads": 2})
    story.tell(Op.PROCESS, Type.OK, figures=figures)
    assert found(story) == [f"K13: process 1 {finding}"]


def test_every_check_can_be_left_out() -> None:
    story = Story()
    story.send(1, told=0)
    assert story.report(skip=CHECKS).findings == ()
    with pytest.raises(ValueError, match="no such checks: K99"):
        story.report(skip=["K99"])


def test_a_history_that_contradicts_itself_is_refused() -> None:
    story = Story()
    story.send(1, at=0)
    story.send(1, at=1)
    with pytest.raises(ValueError, match="a value is sent once"):
        story.report()
    with pytest.raises(ValueError, match="an end without a beginning"):
        check(History.of(story.events[1:2]), log=[], committed=[])


def test_figures_of_a_run() -> None:
    story = Story()
    story.send(1, at=0)
    story.tell(Op.FAULT, Type.INVOKE, text="leader killed")
    story.send(2, Type.INFO)
    story.tell(Op.FAULT, Type.OK, text="leader killed")
    story.send(3, at=1)
    committed_after = Story()
    committed_after.now_ms = story.now_ms
    committed_after.tell(Op.PROCESS, Type.OK, figures={"rss_bytes": 7, "retries": 2})
    committed_after.tell(Op.PROCESS, Type.OK, process=2, figures={"rss_bytes": 9, "retries": 3})
    story.events += committed_after.events
    story.tell(Op.FAULT, Type.OK, text="too late")
    report = story.report()
    assert report.sends == {"ok": 2, "info": 1}
    assert (report.records, report.longest_gap_ms) == (2, 6000)
    assert report.recovery_ms == (("leader killed", 2000), ("too late", None))
    assert report.figures == {"rss_bytes": 9, "retries": 5}
    assert "leader killed: next acknowledgement 2000 ms after it was mended" in str(report)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (MetadataTimeout("no leader"), Type.FAIL),
        (not_written(RecordTooLargeError("too large")), Type.FAIL),
        (DeliveryTimeout("given up", Persisted.NO), Type.FAIL),
        (DeliveryTimeout("given up", Persisted.UNKNOWN), Type.INFO),
        (ClosedError("closed"), Type.INFO),
        (OSError("anything else"), Type.INFO),
        (KeyboardInterrupt(), Type.INFO),
    ],
)
def test_M_P3_what_an_error_says_of_its_operation(error: BaseException, outcome: Type) -> None:
    assert outcome_of(error) is outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransactionAbortableError("a record failed"), Type.FAIL),
        (TransactionOutcomeUnknownError("not answered"), Type.INFO),
        (ProducerFencedError("replaced"), Type.INFO),
    ],
)
def test_M_P3_what_an_error_says_of_a_commit(error: KafkaError, outcome: Type) -> None:
    events = list[Event]()
    with pytest.raises(type(error)), Recorder(events.append, 1).operation(Op.COMMIT, 1, 1000):
        raise error
    assert [event.type for event in events] == [Type.INVOKE, outcome]


def test_a_report_shows_the_first_findings_of_each_check() -> None:
    story = Story()
    for number in range(1, 9):
        story.send(number, told=number)
    story.stands(9, 50)
    told = str(story.report()).splitlines()
    assert told[0] == "9 findings"
    assert len([line for line in told if line.startswith("K1: 1:")]) == 5
    assert "K1: and 3 more" in told
    assert any(line.startswith("K4: ") for line in told)
    lone = Story()
    lone.send(1, told=1)
    assert str(lone.report()).startswith("1 finding\n")

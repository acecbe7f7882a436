"""A share partition in virtual time, and beside a model that keeps every record by itself (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from levada.broker.share.acknowledgements import Acknowledgement, acknowledgements
from levada.broker.share.in_flight import InFlightRange, InFlightRanges
from levada.broker.share.record_states import FINAL, TRANSITIONS, Event, RecordState
from levada.broker.share.share_partition import BY_BATCH, BY_RECORD, Acquired, Asked, Limits, LogBatch, SharePartition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError
from levada.protocol.messages.share_fetch import AcknowledgementBatch

LIMITS = Limits(lock_ms=1_000, max_deliveries=5, max_in_flight=100)
ALL = Asked(max_records=500, batch_size=500)
ME, OTHER = "me", "other"


def log(*ends: int, start: int = 0) -> list[LogBatch]:
    """Batches that end before these offsets."""
    firsts = [start, *ends]
    return [LogBatch(first, end - 1) for first, end in zip(firsts, ends, strict=False)]


def accept(first: int, last: int) -> Acknowledgement:
    return Acknowledgement(first, last, Event.ACCEPT)


def acquire(share: SharePartition, batches: Sequence[LogBatch], asked: Asked = ALL, *, member: str = ME, now_ms: int = 0) -> list[Acquired]:
    """What a member is given of a log, read from where the partition wants it read."""
    return share.acquire(member, asked, [batch for batch in batches if batch.last >= share.fetch_offset], LIMITS, now_ms)


def acknowledge(share: SharePartition, *told: Acknowledgement, member: str = ME, now_ms: int = 0) -> None:
    share.acknowledge(member, told, LIMITS, now_ms)


# Acquiring


def test_records_go_to_one_member_at_a_time() -> None:
    share, batches = SharePartition(0), log(10, 20)
    assert acquire(share, batches, Asked(10, 500)) == [Acquired(0, 9, 1)]
    assert acquire(share, batches, member=OTHER) == [Acquired(10, 19, 1)]
    assert not acquire(share, batches)


def test_whole_batches_are_acquired_even_beyond_what_was_asked_for() -> None:
    share = SharePartition(0)
    assert acquire(share, log(10, 20, 30), Asked(11, 500)) == [Acquired(0, 19, 1)]


def test_strict_limits_part_a_batch() -> None:
    share, batches = SharePartition(0), log(10)
    strict = Asked(4, 500, BY_RECORD)
    assert [acquire(share, batches, strict) for _ in range(3)] == [[Acquired(0, 3, 1)], [Acquired(4, 7, 1)], [Acquired(8, 9, 1)]]


def test_acquired_records_are_told_in_batches_of_the_size_asked_for() -> None:
    share = SharePartition(0)
    assert acquire(share, log(4, 8, 12, 30), Asked(500, 6)) == [Acquired(0, 7, 1), Acquired(8, 29, 1)]


def test_no_more_records_are_in_flight_than_the_group_allows_but_for_the_rest_of_a_batch() -> None:
    share, batches = SharePartition(0), log(60, 120, 180)
    assert acquire(share, batches) == [Acquired(0, 119, 1)]
    assert not share.has_room(LIMITS)
    assert not acquire(share, batches)
    acknowledge(share, Acknowledgement(10, 11, Event.RELEASE))
    assert share.has_room(LIMITS)
    assert acquire(share, batches, member=OTHER) == [Acquired(10, 11, 2)]


def test_the_start_follows_the_first_record_that_is_not_done() -> None:
    share = SharePartition(5)
    acquire(share, log(20, start=5))
    acknowledge(share, accept(6, 9))
    assert (share.start_offset, share.finished) == (5, 4)
    acknowledge(share, accept(5, 5))
    assert (share.start_offset, share.finished) == (10, 0)
    acknowledge(share, Acknowledgement(10, 19, Event.REJECT))
    assert (share.start_offset, share.next_offset, share.in_flight) == (20, 20, 0)


def test_offsets_that_compaction_has_removed_are_done() -> None:
    share = SharePartition(0)
    acquire(share, log(10, 20, 30))
    acknowledge(share, Acknowledgement(0, 29, Event.RELEASE))
    assert acquire(share, [LogBatch(20, 29)]) == [Acquired(20, 29, 2)]
    assert share.start_offset == 20


def test_a_gap_at_the_end_of_what_was_acquired_is_passed_over() -> None:
    share = SharePartition(0)
    assert acquire(share, [LogBatch(7, 9)]) == [Acquired(7, 9, 1)]
    assert share.start_offset == 7
    assert acquire(share, [LogBatch(20, 24)]) == [Acquired(20, 24, 1)]
    acknowledge(share, accept(7, 9))
    assert share.start_offset == 20


def test_records_of_aborted_transactions_are_not_given_to_readers_of_committed_data() -> None:
    share = SharePartition(0)
    batches = [LogBatch(0, 4), LogBatch(5, 7, is_aborted=True), LogBatch(8, 9)]
    assert share.acquire(ME, ALL, batches, LIMITS, 0) == [Acquired(0, 4, 1), Acquired(8, 9, 1)]
    acknowledge(share, accept(0, 4))
    assert share.start_offset == 8


# Acknowledging


@pytest.mark.parametrize(
    ("event", "again"), [(Event.ACCEPT, False), (Event.REJECT, False), (Event.GAP, False), (Event.RELEASE, True), (Event.RENEW, False)]
)
def test_only_released_records_are_delivered_again(event: Event, again: bool) -> None:
    share, batches = SharePartition(0), log(10)
    acquire(share, batches)
    acknowledge(share, Acknowledgement(2, 3, event))
    assert acquire(share, batches, member=OTHER) == ([Acquired(2, 3, 2)] if again else [])


def test_a_record_is_archived_after_its_last_delivery() -> None:
    share, batches = SharePartition(0), log(1)
    for delivery in range(1, LIMITS.max_deliveries + 1):
        assert acquire(share, batches) == [Acquired(0, 0, delivery)]
        acknowledge(share, Acknowledgement(0, 0, Event.RELEASE))
    assert not acquire(share, batches)
    assert share.start_offset == 1


def test_records_that_failed_often_are_given_out_in_ever_smaller_numbers() -> None:
    share, batches = SharePartition(0), log(16)
    sizes: list[tuple[int, int]] = []
    while not sizes or sizes[-1][1] < LIMITS.max_deliveries:
        given = acquire(share, batches)
        sizes.append((sum(one.last - one.first + 1 for one in given), given[0].deliveries))
        acknowledge(share, *(Acknowledgement(one.first, one.last, Event.RELEASE) for one in given))
    # Of 16 records half are delivered for the fourth time, and one for the fifth and last time.
    assert sizes == [(16, 1), (16, 2), (16, 3), (8, 4), (1, 5)]


def test_how_many_suspect_records_are_given_out_goes_by_their_batch_and_not_by_what_was_read_of_it() -> None:
    share, batches = SharePartition(0), log(*range(2, 17, 2))
    for _ in range(3):
        acquire(share, batches)
        acknowledge(share, Acknowledgement(0, 15, Event.RELEASE))
    assert acquire(share, batches[:1]) == [Acquired(0, 1, 4)]


def test_suspect_records_behind_many_others_are_not_held_back() -> None:
    share, batches = SharePartition(0), log(6)
    for _ in range(3):
        acquire(share, batches)
        acknowledge(share, Acknowledgement(0, 5, Event.RELEASE))
    assert acquire(share, batches) == [Acquired(0, 2, 4)]
    share = SharePartition(0)
    acquire(share, batches)
    acknowledge(share, Acknowledgement(0, 5, Event.RELEASE))
    for _ in range(2):
        acquire(share, batches)
        acknowledge(share, Acknowledgement(3, 5, Event.RELEASE))
    acknowledge(share, Acknowledgement(0, 2, Event.RELEASE))
    assert acquire(share, batches) == [Acquired(0, 2, 3), Acquired(3, 5, 4)]


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ((accept(0, 9), accept(10, 19)), ErrorCode.INVALID_RECORD_STATE),
        ((accept(0, 9), accept(30, 39)), ErrorCode.INVALID_REQUEST),
        ((accept(0, 0), accept(5, 12)), ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_acknowledgements_are_taken_over_whole_or_not_at_all(told: tuple[Acknowledgement, ...], code: ErrorCode) -> None:
    share, batches = SharePartition(0), log(10, 20)
    acquire(share, batches, Asked(10, 500))
    acquire(share, batches, member=OTHER)
    with pytest.raises(BrokerError) as refused:
        acknowledge(share, *told)
    assert refused.value.code == code
    assert (share.start_offset, share.finished) == (0, 0)


def test_a_record_is_acknowledged_once() -> None:
    share = SharePartition(0)
    acquire(share, log(10))
    acknowledge(share, accept(3, 3))
    with pytest.raises(BrokerError) as refused:
        acknowledge(share, accept(3, 3))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    acknowledge(share, accept(0, 2))
    # The group is done with everything up to there, so these are passed over.
    acknowledge(share, accept(0, 3))


def test_nothing_is_acknowledged_that_nobody_has_acquired() -> None:
    with pytest.raises(BrokerError) as refused:
        acknowledge(SharePartition(0), accept(0, 0))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("batches", "may_renew"),
    [
        ([(5, 4, [1])], True),
        ([(0, 4, [1]), (3, 5, [1])], True),
        ([(0, 4, [])], True),
        ([(-1, 4, [1])], True),
        ([(0, 4, [1, 1])], True),
        ([(0, 0, [5])], True),
        ([(0, 0, [-1])], True),
        ([(0, 0, [4])], False),
    ],
)
def test_acknowledgements_that_cannot_be_understood_are_refused(batches: list[tuple[int, int, list[int]]], may_renew: bool) -> None:
    told = [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in batches]
    with pytest.raises(BrokerError) as refused:
        acknowledgements(told, may_renew=may_renew)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_an_offset_is_acknowledged_once_in_a_request() -> None:
    told = [AcknowledgementBatch(first_offset=first, last_offset=4, acknowledge_types=[1]) for first in (0, 4)]
    with pytest.raises(BrokerError) as refused:
        acknowledgements(told, may_renew=True)
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


def test_types_of_single_offsets_become_runs() -> None:
    told = [
        AcknowledgementBatch(first_offset=3, last_offset=6, acknowledge_types=[1, 1, 2, 0]),
        AcknowledgementBatch(first_offset=7, last_offset=9, acknowledge_types=[4]),
    ]
    assert acknowledgements(told, may_renew=True) == [
        Acknowledgement(3, 4, Event.ACCEPT),
        Acknowledgement(5, 5, Event.RELEASE),
        Acknowledgement(6, 6, Event.GAP),
        Acknowledgement(7, 9, Event.RENEW),
    ]


# Time, leaders, the log


def test_a_lock_ends() -> None:
    share, batches = SharePartition(0), log(10)
    acquire(share, batches)
    assert share.next_deadline_ms == LIMITS.lock_ms
    assert not share.expire(LIMITS, LIMITS.lock_ms - 1)
    assert share.expire(LIMITS, LIMITS.lock_ms)
    assert acquire(share, batches, member=OTHER) == [Acquired(0, 9, 2)]


def test_a_renewed_lock_lasts_as_long_again() -> None:
    share, batches = SharePartition(0), log(10)
    acquire(share, batches)
    acknowledge(share, Acknowledgement(0, 4, Event.RENEW), now_ms=600)
    assert share.expire(LIMITS, 1_000)
    assert acquire(share, batches, member=OTHER, now_ms=1_000) == [Acquired(5, 9, 2)]
    assert share.next_deadline_ms == 1_600
    assert share.expire(LIMITS, 1_600)
    assert acquire(share, batches, member=OTHER, now_ms=1_600) == [Acquired(0, 4, 2)]


def test_what_a_session_held_is_available_again() -> None:
    share, batches = SharePartition(0), log(10, 20)
    acquire(share, batches, Asked(10, 500))
    acquire(share, batches, member=OTHER)
    assert share.release_all_of(ME, LIMITS)
    assert not share.release_all_of(ME, LIMITS)
    assert acquire(share, batches, member=OTHER) == [Acquired(0, 9, 2)]


def test_another_leader_knows_what_was_stored() -> None:
    share, batches = SharePartition(0), log(10, 20)
    acquire(share, batches)
    acknowledge(share, accept(0, 4), Acknowledgement(5, 6, Event.RELEASE))
    acquire(share, batches, member=OTHER)
    share.change_leader()
    assert (share.start_offset, share.next_deadline_ms > LIMITS.lock_ms) == (5, True)
    assert acquire(share, batches) == [Acquired(5, 6, 2), Acquired(7, 19, 1)]


def test_deleted_records_are_done() -> None:
    share, batches = SharePartition(0), log(10, 20)
    acquire(share, batches)
    share.follow_log(15, 20)
    assert share.start_offset == 15
    acknowledge(share, accept(0, 9), accept(10, 17))
    assert share.start_offset == 18
    share.follow_log(40, 40)
    assert (share.start_offset, share.next_offset, share.fetch_offset) == (40, 40, 40)


def test_records_that_an_unclean_election_has_lost_are_forgotten() -> None:
    share = SharePartition(0)
    acquire(share, log(10, 20))
    share.follow_log(0, 10)
    assert (share.start_offset, share.next_offset) == (0, 10)
    assert acquire(share, log(10, 14)) == [Acquired(10, 13, 1)]


# The tables and the ranges


def test_nothing_follows_a_final_state() -> None:
    assert not any(TRANSITIONS[state] for state in FINAL)
    acknowledged = InFlightRange(0, 1, 0, RecordState.ACKNOWLEDGED)
    with pytest.raises(IllegalStateError, match="in the state 'acknowledged' has no transition for 'be released'"):
        acknowledged.moved(Event.RELEASE, 5)


def test_ranges_that_are_alike_are_joined() -> None:
    ranges = InFlightRanges()
    for first in (0, 5, 10):
        ranges.add(InFlightRange(first, first + 4, 0, RecordState.AVAILABLE))
    assert len(ranges) == 1
    ranges.change(3, 11, lambda found: found.acquired(ME, 9))
    assert [(found.first, found.last, found.member) for found in ranges] == [(0, 2, ""), (3, 11, ME), (12, 14, "")]
    ranges.change(3, 11, lambda found: found.moved(Event.LOSE_LEADER, 5))
    assert len(ranges) == 1
    ranges.drop_before(4)
    ranges.drop_from(9)
    assert [(found.first, found.last) for found in ranges] == [(4, 8)]


# Beside a model


@dataclass
class Record:
    state: RecordState
    deliveries: int = 0
    member: str = ""
    until_ms: int = 0


MEMBERS = st.sampled_from([ME, OTHER])
EVENTS = st.sampled_from([Event.ACCEPT, Event.RELEASE, Event.REJECT, Event.GAP, Event.RENEW])


class Machine(RuleBasedStateMachine):
    """A share partition, and a record for each offset that was ever acquired. What is given out is checked, and then taken over."""

    def __init__(self) -> None:
        super().__init__()
        self.share = SharePartition(0)
        self.records: dict[int, Record] = {}
        self.batches: list[LogBatch] = []
        self.log_start = 0
        self.now_ms = 0

    @property
    def log_end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    @property
    def start(self) -> int:
        """Where the model says that the group is not done."""
        end = max(self.records, default=-1) + 1
        first = next((at for at in sorted(self.records) if self.records[at].state not in FINAL and at >= self.log_start), end)
        return max(first, self.log_start)

    @rule(records=st.integers(1, 9))
    def produce(self, records: int) -> None:
        self.batches.append(LogBatch(self.log_end, self.log_end + records - 1))

    @rule(member=MEMBERS, wanted=st.integers(1, 30), size=st.integers(1, 10), mode=st.sampled_from([BY_BATCH, BY_RECORD]))
    def fetch(self, member: str, wanted: int, size: int, mode: int) -> None:
        offset = self.share.fetch_offset
        ready = [at for at in sorted(self.records) if at >= self.log_start and self.records[at].state is RecordState.AVAILABLE]
        assert offset == (ready[0] if ready else max(max(self.records, default=-1) + 1, self.log_start))
        read = [batch for batch in self.batches if batch.last >= offset]
        given = self.share.acquire(member, Asked(wanted, size, mode), read, LIMITS, self.now_ms)
        for one in given:
            for at in range(one.first, one.last + 1):
                record = self.records.setdefault(at, Record(RecordState.AVAILABLE))
                assert record.state is RecordState.AVAILABLE
                assert record.deliveries + 1 == one.deliveries <= LIMITS.max_deliveries
                self.records[at] = Record(RecordState.ACQUIRED, one.deliveries, member, self.now_ms + LIMITS.lock_ms)
        for at in range(self.share.start_offset, self.share.next_offset):
            self.records.setdefault(at, Record(RecordState.AVAILABLE))
        count = sum(one.last - one.first + 1 for one in given)
        assert mode == BY_BATCH or count <= wanted
        assert given or not ready
        last_chances = [one for one in given if one.deliveries == LIMITS.max_deliveries]
        assert not last_chances or count == 1

    @rule(member=MEMBERS, first=st.integers(0, 60), count=st.integers(1, 20), event=EVENTS)
    def acknowledge(self, member: str, first: int, count: int, event: Event) -> None:
        wanted = [at for at in range(first, first + count) if at >= self.start]
        mine = all(
            at in self.records and self.records[at].state is RecordState.ACQUIRED and self.records[at].member == member for at in wanted
        )
        try:
            self.share.acknowledge(member, [Acknowledgement(first, first + count - 1, event)], LIMITS, self.now_ms)
        except BrokerError:
            assert not mine
            return
        assert mine
        for at in wanted:
            self._move(at, event)

    @rule(ms=st.integers(1, 1_500))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.share.expire(LIMITS, self.now_ms)
        for at, record in self.records.items():
            if record.state is RecordState.ACQUIRED and record.until_ms <= self.now_ms:
                self._move(at, Event.TIME_OUT)

    @rule(member=MEMBERS)
    def end_session(self, member: str) -> None:
        self.share.release_all_of(member, LIMITS)
        for at, record in self.records.items():
            if record.state is RecordState.ACQUIRED and record.member == member:
                self._move(at, Event.LOSE_SESSION)

    @rule()
    def change_leader(self) -> None:
        self.share.change_leader()
        for at, record in self.records.items():
            if record.state is RecordState.ACQUIRED:
                self._move(at, Event.LOSE_LEADER)

    @rule(more=st.integers(1, 12))
    def delete_records(self, more: int) -> None:
        self.log_start = min(self.log_start + more, self.log_end)
        self.share.follow_log(self.log_start, self.log_end)

    @invariant()
    def agrees(self) -> None:
        assert self.share.start_offset == self.start
        known = {at: record for at, record in self.records.items() if at >= self.start}
        found = {at: one for one in self.share for at in range(one.first, one.last + 1)}
        assert found.keys() == known.keys()
        for at, one in found.items():
            assert (one.state, one.deliveries, one.member) == (known[at].state, known[at].deliveries, known[at].member)
        assert self.share.finished == sum(record.state in FINAL for record in known.values())
        held = [record.until_ms for record in known.values() if record.state is RecordState.ACQUIRED]
        assert not held or self.share.next_deadline_ms <= min(held)

    @invariant()
    def is_kept_in_as_few_ranges_as_possible(self) -> None:
        alike = [key for key, _ in groupby(self.share, key=lambda one: one[2:])]
        assert len(list(self.share)) == len(alike)

    def _move(self, at: int, event: Event) -> None:
        record = self.records[at]
        if event is Event.RENEW:
            record.until_ms = self.now_ms + LIMITS.lock_ms
            return
        exhausted = event in (Event.RELEASE, Event.TIME_OUT, Event.LOSE_SESSION) and record.deliveries >= LIMITS.max_deliveries
        record.state = TRANSITIONS[record.state][Event.EXHAUST if exhausted else event]
        record.deliveries -= event is Event.LOSE_LEADER
        record.member = ""


TestSharePartitionBesideItsModel = Machine.TestCase
TestSharePartitionBesideItsModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

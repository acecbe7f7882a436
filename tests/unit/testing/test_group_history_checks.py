"""The checks of groups against histories made by hand: each anomaly is found, and what only looks like one is not (X-K8 to X-K11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from levada.testing.history import Event, Found, History, Op, Place, Type, check, value_of

GROUP = "g"


class GroupStory:
    """A topic "in" of one partition with the records 1, 2, ... of process 9, `step` offsets apart, and members that read it."""

    def __init__(self, records: int = 6, step: int = 1) -> None:
        self.events: list[Event] = []
        self.log = [Found("in", 0, offset, value_of(9, offset + 1)) for offset in range(0, step * records, step)]
        for found in self.log:
            self.tell(9, Op.SEND, Type.INVOKE, value=found.value, topic="in", partition=0)
            self.tell(9, Op.SEND, Type.OK, value=found.value, topic="in", partition=0, offset=found.offset)
        self.commits = 0

    def tell(self, process: int, op: Op, kind: Type = Type.OK, **fields: Any) -> None:
        self.events.append(Event(1000, process, op, kind, **fields))

    def assign(self, process: int, generation: int = 1, *, instance: str = "", partitions: tuple[int, ...] = (0,)) -> None:
        held = tuple(Place("in", partition) for partition in partitions)
        self.tell(process, Op.ASSIGN, group=GROUP, generation=generation, places=held, text=instance)

    def revoke(self, process: int) -> None:
        self.tell(process, Op.REVOKE, places=(Place("in", 0),))

    def read(self, process: int, *indices: int) -> None:
        self.tell(process, Op.POLL, read=tuple(self.log[index] for index in indices))

    def commit(self, process: int, offset: int, outcome: Type | None = Type.OK, transaction: int = -1) -> None:
        self.commits += 1
        what: Mapping[str, Any] = {"group": GROUP, "value": self.commits, "transaction": transaction}
        self.tell(process, Op.OFFSETS, Type.INVOKE, places=(Place("in", 0, offset),), **what)
        if outcome is not None:
            self.tell(process, Op.OFFSETS, outcome, **what)

    def write(self, process: int, number: int, source: int, transaction: int) -> None:
        """Write record `number`, made of the record at `source`."""
        value = value_of(process, number)
        what: Mapping[str, Any] = {"value": value, "topic": "out", "partition": 0, "transaction": transaction}
        self.tell(process, Op.SEND, Type.INVOKE, source=self.log[source].value, **what)
        at = sum(found.topic == "out" for found in self.log)
        self.tell(process, Op.SEND, Type.OK, offset=at, **what)
        self.log.append(Found("out", 0, at, value))

    def end(self, process: int, transaction: int) -> None:
        self.tell(process, Op.COMMIT, Type.INVOKE, transaction=transaction)
        self.tell(process, Op.COMMIT, transaction=transaction)

    def found(self) -> list[str]:
        return [str(finding) for finding in check(History.of(self.events), log=self.log, committed=self.log).findings]


def read_and_committed(story: GroupStory) -> None:
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 2)
    story.read(1, 2)
    story.commit(1, 3)


def read_again_by_another_after_a_crash(story: GroupStory) -> None:
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 1)
    story.tell(1, Op.CRASH)
    story.assign(2, 2)
    story.read(2, 1, 2)


def read_again_after_a_commit_of_unknown_outcome(story: GroupStory) -> None:
    story.assign(1)
    story.read(1, 0)
    story.commit(1, 1, Type.INFO)
    story.commit(1, 1, None)
    story.revoke(1)
    story.assign(2, 2)
    story.read(2, 0)


def taken_over_from_one_that_does_not_know(story: GroupStory) -> None:
    """The first member was too slow, and has not called poll() since."""
    story.assign(1, 1)
    story.assign(2, 2)
    story.read(2, 0)


def a_static_members_next_process(story: GroupStory) -> None:
    story.assign(1, 1, instance="one")
    story.assign(2, 1, instance="one")


def kept_over_a_rebalance(story: GroupStory) -> None:
    story.assign(1, 1)
    story.read(1, 0)
    story.assign(1, 2)
    story.read(1, 1)


def gaps_of_offsets(story: GroupStory) -> None:
    """Markers, aborted and compacted records stand between: what nobody can read is not left out."""
    story.__init__(step=3)  # type: ignore[misc]
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 6)


def made_into_one_record_each(story: GroupStory) -> None:
    story.assign(1)
    story.read(1, 0, 1)
    story.write(1, 1, 0, 50)
    story.write(1, 2, 1, 50)
    story.commit(1, 2, transaction=50)
    story.end(1, 50)


def begun_where_a_program_has_set_it(story: GroupStory) -> None:
    """As an administrator does, before there is a member."""
    story.commit(7, 2)
    story.assign(1)
    story.read(1, 2)
    story.commit(1, 3)


def committed_for_a_group_without_members(story: GroupStory) -> None:
    story.commit(7, 4)


LEGAL = [
    begun_where_a_program_has_set_it, committed_for_a_group_without_members, read_and_committed,
    read_again_by_another_after_a_crash, read_again_after_a_commit_of_unknown_outcome, kept_over_a_rebalance,
    taken_over_from_one_that_does_not_know, a_static_members_next_process, gaps_of_offsets, made_into_one_record_each,
]  # fmt: skip


@pytest.mark.parametrize("tell", LEGAL, ids=lambda tell: tell.__name__)
def test_what_groups_may_do_is_not_reported(tell: Callable[[GroupStory], None]) -> None:
    story = GroupStory()
    tell(story)
    assert story.found() == []


def test_X_K8_a_poll_leaves_a_record_out() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 2)
    assert story.found() == ["K8: process 1 was given in-0@2 after in-0@0, and in-0@1 stands between"]


@pytest.mark.parametrize("outcome", [Type.OK, Type.INFO, None])
def test_X_K8_an_offset_is_committed_past_a_record_that_nobody_was_given(outcome: Type | None) -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0)
    story.commit(1, 2, outcome)
    assert story.found() == ["K8: g committed in-0 up to offset 2, of process 1, and no member had been given in-0@1"]


def test_X_K8_a_record_is_given_out_only_after_it_was_committed() -> None:
    story = GroupStory()
    story.assign(1)
    story.tell(8, Op.COMMITTED, group=GROUP, places=(Place("in", 0, 1),))
    story.read(1, 0)
    assert story.found() == ["K8: g committed in-0 up to offset 1, of process 8, and no member had been given in-0@0"]


def test_X_K8_a_transaction_commits_past_a_record_that_nothing_was_made_of() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 1)
    story.write(1, 1, 0, 50)
    story.commit(1, 2, transaction=50)
    story.end(1, 50)
    (found,) = story.found()
    assert found.startswith("K8: transaction 0:50 committed in-0 up to offset 2, of process 1, and nothing was made of in-0@1")


def test_X_K9_a_poll_goes_back() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 1)
    story.read(1, 1)
    assert story.found() == ["K9: process 1 was given in-0@1 after in-0@1"]


def test_X_K10_what_was_committed_is_given_out_again() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 2)
    story.revoke(1)
    story.assign(2, 2)
    story.read(2, 1, 2)
    expected = "K10: process 2 was given in-0@1, which had been committed before: offset 2, of process 1\n    process 2 has in-0 for g"
    assert story.found() == [expected]


def test_X_K10_two_members_of_a_generation_have_a_partition() -> None:
    story = GroupStory()
    story.assign(1, 4)
    story.assign(2, 4)
    assert story.found() == ["K10: processes 1 and 2 have in-0 in generation 4 of g"]


def test_X_K10_a_member_is_given_what_it_does_not_have() -> None:
    story = GroupStory()
    story.assign(1)
    story.revoke(1)
    story.read(1, 0)
    assert story.found() == ["K10: process 1 was given in-0@0, and does not have the partition"]


def test_X_K10_two_records_are_made_of_one() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0)
    story.write(1, 1, 0, -1)
    story.write(1, 2, 0, -1)
    assert story.found() == ["K10: 2 records were made of 9:1: out-0@0, out-0@1"]


def test_X_K11_a_lower_offset_is_committed_later() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 2)
    story.commit(1, 1)
    assert story.found() == ["K11: g committed in-0: offset 1, of process 1, after this was confirmed: offset 2, of process 1"]


def test_X_K11_a_confirmed_commit_is_not_there() -> None:
    story = GroupStory()
    story.assign(1)
    story.read(1, 0, 1)
    story.commit(1, 2, transaction=50)
    story.end(1, 50)
    story.tell(8, Op.COMMITTED, group=GROUP, places=(Place("in", 0, 0),))
    assert story.found() == ["K11: g committed in-0: offset 0, of process 8, after this was confirmed: offset 2, of process 1"]


def test_events_of_groups_are_lines_of_a_file() -> None:
    story = GroupStory()
    read_and_committed(story)
    story.write(1, 1, 0, 50)
    assert [Event.from_json(event.to_json()) for event in story.events] == story.events

"""Group members and coordinators with one deliberate fault each. The history checker must find every fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from levada.broker.apis.groups import offset_commit
from levada.broker.apis.transactions import txn_offset_commit
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.coordinators.groups.group_offsets import GroupOffsets, _Group, _Written
from levada.consumer.group import joining
from levada.consumer.group.classic import ClassicMember
from levada.consumer.group.consumer_member import ConsumerGroupMember
from levada.consumer.group.consumer_protocol import assignment_bytes
from levada.consumer.group.leading import Layouts
from levada.consumer.group.requests import Generation
from levada.consumer.positions.commits import Commits
from levada.consumer.positions.committed_positions import CommittedPositions
from levada.consumer.positions.subscription_state import PartitionState
from levada.groups import MemberAssignment
from levada.sync.producer import KafkaProducer
from levada.testing.history import Found, RecordingMember, RecordingProducer
from levada.types import OffsetAndMetadata, TopicPartition
from mutants import Every

Patch = pytest.MonkeyPatch


class GroupMutant(NamedTuple):
    """A mutant. finds: checks that must each find the fault in one of the runs. settings: of the members."""

    break_it: Callable[[Patch], None]
    finds: frozenset[str]
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        protocol = self.settings.get("group_protocol")
        return self.break_it.__name__ if protocol is None else f"{self.break_it.__name__}-{protocol}"


GROUP_MUTANTS: list[GroupMutant] = []
PLAIN: Mapping[str, Any] = {"transactional": False, "enable_auto_commit": False}
IN_TRANSACTIONS: Mapping[str, Any] = {"transactional": True, "enable_auto_commit": False}
SLOW: Mapping[str, Any] = {**IN_TRANSACTIONS, "pause_ms": 22_000, "transaction_timeout_ms": 40_000}
CONSUMER: Mapping[str, Any] = {"group_protocol": "consumer"}
"""The protocol of KIP-848."""


def mutant(*finds: str, **settings: Any) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a function to GROUP_MUTANTS."""

    def add(break_it: Callable[[Patch], None]) -> Callable[[Patch], None]:
        GROUP_MUTANTS.append(GroupMutant(break_it, frozenset(finds), settings))
        return break_it

    return add


# Members


@mutant("K8")
def a_member_that_commits_one_too_far(patch: Patch) -> None:
    handed_out = Commits.handed_out

    def too_far(self: Commits, *left: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: _moved(at, 1) for tp, at in handed_out(self, *left).items()}

    patch.setattr(Commits, "handed_out", too_far)


@mutant("K8")
def a_member_that_begins_one_too_far(patch: Patch) -> None:
    _begin_elsewhere(patch, 1)


@mutant("K10")
def a_member_that_begins_one_too_early(patch: Patch) -> None:
    _begin_elsewhere(patch, -1)


@mutant("K8", **PLAIN)
def a_member_that_leaves_a_record_out(patch: Patch) -> None:
    _seek_after_polls(patch, 2)


@mutant("K9", **PLAIN)
def a_member_that_goes_back(patch: Patch) -> None:
    _seek_after_polls(patch, 0)


@mutant("K10", **SLOW)
def a_member_that_commits_in_nobodys_name(patch: Patch) -> None:
    """It has no generation once it is out of its group, and coordinators take a transaction's offsets from nobody in particular."""
    lose = ClassicMember.lose

    def forget(self: ClassicMember, *, keeps_id: bool) -> None:
        lose(self, keeps_id=keeps_id)
        self._last_generation = Generation()

    patch.setattr(ClassicMember, "lose", forget)


@mutant("K10", **IN_TRANSACTIONS)
def a_member_that_forgets_offsets_of_a_transaction(patch: Patch) -> None:
    send, often = KafkaProducer.send_offsets_to_transaction, Every(4)

    def forget(self: KafkaProducer[Any, Any], *arguments: Any) -> None:
        if not often():
            send(self, *arguments)

    patch.setattr(KafkaProducer, "send_offsets_to_transaction", forget)


@mutant("K8", **IN_TRANSACTIONS)
def a_member_that_commits_offsets_of_what_it_did_not_write(patch: Patch) -> None:
    send, often = RecordingProducer.send, Every(5)

    def leave_out(self: RecordingProducer, *arguments: Any, **options: Any) -> None:
        if not often():
            send(self, *arguments, **options)

    patch.setattr(RecordingProducer, "send", leave_out)


@mutant("K11", **PLAIN, **CONSUMER)
def a_member_that_keeps_what_it_has_lost(patch: Patch) -> None:
    patch.setattr(ConsumerGroupMember, "has_lost", False)


@mutant("K10")
def a_leader_that_gives_everything_to_everybody(patch: Patch) -> None:
    def generous(assignor: Any, topics: Layouts, members: Mapping[str, Any], **options: Any) -> dict[str, bytes]:
        everything = tuple(tp for topic in topics.values() for tp in topic.partitions)
        return dict.fromkeys(members, assignment_bytes(MemberAssignment(everything)))

    patch.setattr(joining, "assign", generous)


# Coordinators


@mutant("K10", **SLOW, **CONSUMER)
@mutant("K10", **SLOW)
def a_coordinator_that_does_not_look_at_generations(patch: Patch) -> None:
    for api in (offset_commit, txn_offset_commit):
        patch.setattr(api, "check_member", lambda *arguments, **options: None)


@mutant("K11", **PLAIN, **CONSUMER)
def a_coordinator_that_hands_on_what_is_still_held(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "_held", lambda self: frozenset())


@mutant("K10", **PLAIN)
def a_coordinator_that_forgets_a_commit(patch: Patch) -> None:
    commit, often = GroupOffsets.commit, Every(3)

    def forget(self: GroupOffsets, *arguments: Any, **options: Any) -> None:
        if not often():
            commit(self, *arguments, **options)

    patch.setattr(GroupOffsets, "commit", forget)


@mutant("K11")
def a_coordinator_that_goes_back(patch: Patch) -> None:
    keep, often = _Group.keep, Every(5)

    def go_back(self: _Group, written: Mapping[TopicPartition, _Written]) -> None:
        if often():
            written = {tp: one._replace(offset=one.offset._replace(offset=max(one.offset.offset - 1, 0))) for tp, one in written.items()}
        keep(self, written)

    patch.setattr(_Group, "keep", go_back)


def _moved(at: OffsetAndMetadata, by: int) -> OffsetAndMetadata:
    return at._replace(offset=max(at.offset + by, 0))


def _begin_elsewhere(patch: Patch, by: int) -> None:
    take = CommittedPositions._take

    def elsewhere(self: CommittedPositions, state: PartitionState, at: OffsetAndMetadata | None) -> None:
        take(self, state, None if at is None else _moved(at, by))

    patch.setattr(CommittedPositions, "_take", elsewhere)


def _seek_after_polls(patch: Patch, by: int) -> None:
    """After every third poll that returned something, go on so many records after the last one."""
    poll, often = RecordingMember.poll, Every(3)

    def stray(self: RecordingMember, *arguments: Any) -> list[Found]:
        found = poll(self, *arguments)
        if found and often():
            self._consumer.seek(found[-1].tp, found[-1].offset + by)
        return found

    patch.setattr(RecordingMember, "poll", stray)

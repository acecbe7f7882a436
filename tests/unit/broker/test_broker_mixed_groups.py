"""Groups that change their protocol while they have members, and members of both protocols in one group (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_kit import Bench
from group_kit import REBALANCE_MS, SESSION_MS, ConsumerGroupMember, GroupMember, assigned, assignment, protocols, subscription
from levada.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.list_groups import ListGroupsRequest

GROUP = "g"


class Classic(GroupMember):
    """A member of the classic protocol that keeps what it has when it joins again, as cooperative-sticky does."""

    def __init__(self, bench: Bench, **options: Any) -> None:
        super().__init__(GROUP, **options)
        self.client = bench.client()
        self.has: list[int] = []

    def offer(self) -> None:
        self.offers = protocols("cooperative-sticky", metadata=subscription("t", owned={"t": self.has}))

    def joins(self, version: int = 9, **fields: Any) -> Any:
        """Join a consumer group, where no join waits."""
        self.offer()
        answer = self.client.ask(self.join(**fields), version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            answer = self.client.ask(self.join(**fields), version)
        return answer if answer.error_code else self.take(answer)

    def syncs(self) -> Any:
        answer = self.client.ask(self.sync())
        if not answer.error_code:
            self.has = assigned(answer.assignment).get("t", [])
        return answer

    def alive(self) -> ErrorCode:
        return ErrorCode(self.client.ask(self.heartbeat()).error_code)

    def follow(self) -> None:
        """Join and sync for as long as the heartbeat asks to."""
        while self.alive() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.joins()
            self.syncs()


class Consumer(ConsumerGroupMember):
    """A member of the new protocol."""

    def __init__(self, bench: Bench, name: str, **options: Any) -> None:
        super().__init__(GROUP, name, **options)
        self.client = bench.client()

    def joins(self) -> Any:
        return self.take(self.client.ask(self.join()))

    def beats(self) -> Any:
        return self.take(self.client.ask(self.owning()))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, number in self.has)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node.create_topic("t", 4)
    return bench


def kind(bench: Bench) -> tuple[str, str]:
    (group,) = bench.client().ask(ListGroupsRequest()).groups
    return group.group_type, group.group_state


def stable_classic(bench: Bench, **options: Any) -> Classic:
    """A classic group of one member, which reads everything."""
    member = Classic(bench, **options)
    member.offer()
    if member.instance is None:
        member.id = member.client.ask(member.join()).member_id
    member.client.send(member.join(), 9)
    bench.advance()
    (answer,) = member.client.answers()
    member.take(answer)
    member.client.ask(member.sync({member.id: assignment(t=[0, 1, 2, 3])}))
    member.has = [0, 1, 2, 3]
    return member


def settle(classic: Classic, consumer: Consumer) -> None:
    for _ in range(4):
        classic.follow()
        consumer.beats()


def test_a_classic_group_becomes_a_consumer_group_with_its_members_and_partitions(bench: Bench) -> None:
    classic, consumer = stable_classic(bench), Consumer(bench, "new")
    consumer.joins()
    assert (kind(bench), consumer.numbers, consumer.epoch) == (("consumer", "Reconciling"), [], classic.generation + 1)
    assert classic.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.client.ask(classic.sync()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    classic.joins()
    classic.syncs()
    assert (len(classic.has), classic.generation) == (2, 1)  # It is told what to give up, and joins again when it has.
    assert consumer.beats().assignment is None
    settle(classic, consumer)
    assert sorted(classic.has + consumer.numbers) == [0, 1, 2, 3] and len(consumer.numbers) == 2
    assert (kind(bench), classic.generation) == (("consumer", "Stable"), consumer.epoch)
    (group,) = bench.client().ask(ConsumerGroupDescribeRequest(group_ids=[GROUP])).groups
    assert sorted(one.member_type for one in group.members) == [0, 1]


def test_the_last_member_of_the_new_protocol_makes_it_a_classic_group_again(bench: Bench) -> None:
    classic, consumer = stable_classic(bench), Consumer(bench, "new")
    consumer.joins()
    settle(classic, consumer)
    generation, had = classic.generation, classic.has
    consumer.client.ask(consumer.leave())
    assert kind(bench) == ("classic", "PreparingRebalance")
    assert classic.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    classic.offer()
    answer = classic.take(classic.client.ask(classic.join()))
    assert (answer.leader, answer.generation_id, answer.protocol_name) == (classic.id, generation + 1, "cooperative-sticky")
    assert classic.has == had and len(answer.members) == 1


def test_a_new_member_of_the_classic_protocol_joins_a_consumer_group(bench: Bench) -> None:
    consumer, classic = Consumer(bench, "new"), Classic(bench)
    consumer.joins()
    unreadable = classic.client.ask(classic.join(), 3)
    assert unreadable.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = classic.joins()
    assert (answer.leader, answer.members, answer.generation_id) == ("", [], 3)
    assert (classic.syncs().error_code, classic.has, classic.alive()) == (ErrorCode.NONE, [], ErrorCode.NONE)
    consumer.beats()
    assert classic.alive() is ErrorCode.NONE  # The other one still reads what it has to give up.
    consumer.beats()
    assert classic.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(classic, consumer)
    assert sorted(classic.has + consumer.numbers) == [0, 1, 2, 3] and len(classic.has) == 2
    codes = [code.error_code for code in classic.client.ask(classic.leave(5)).members]
    consumer.beats()
    assert (codes, consumer.numbers) == ([0], [0, 1, 2, 3])


def test_an_administrator_removes_members_of_either_protocol(bench: Bench) -> None:
    consumer, other, classic = Consumer(bench, "new"), Consumer(bench, "other", instance="i"), Classic(bench)
    for member in (consumer, other):
        member.joins()
    classic.joins()
    leavers = [MemberIdentity(member_id="new"), MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="nobody")]
    codes = [answer.error_code for answer in classic.client.ask(classic.leave(5, members=leavers)).members]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert kind(bench)[0] == "classic", "the last member of the new protocol was removed"


def test_what_waits_when_a_group_is_converted_has_to_be_asked_again(bench: Bench) -> None:
    member, other = stable_classic(bench), Classic(bench)
    other.offer()
    other.id = other.client.ask(other.join()).member_id
    other.client.send(other.join(), 9)
    Consumer(bench, "new").joins()
    (answer,) = other.client.answers()
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert other.joins().error_code == 0


@pytest.mark.parametrize(
    ("offers", "kind_of_members"),
    [(protocols("range", metadata=b""), "consumer"), (protocols("range", metadata=subscription("t")), "connect")],
)
def test_a_group_whose_members_are_no_consumers_stays_as_it_is(bench: Bench, offers: Any, kind_of_members: str) -> None:
    member = GroupMember(GROUP, offers=offers)
    client = bench.client()
    client.send(member.join(protocol_type=kind_of_members), 3)
    bench.advance()
    assert Consumer(bench, "new").joins().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(bench)[0] == "classic"


def test_requests_of_the_classic_protocol_are_checked(bench: Bench) -> None:
    classic, consumer = stable_classic(bench), Consumer(bench, "new")
    consumer.joins()
    settle(classic, consumer)

    def code(request: Any) -> ErrorCode:
        return ErrorCode(classic.client.ask(request).error_code)

    for ask in (classic.heartbeat, classic.sync):
        assert code(ask(generation_id=77)) is ErrorCode.ILLEGAL_GENERATION
        assert code(ask(member_id="nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
        assert code(ask(member_id="new")) is ErrorCode.UNKNOWN_MEMBER_ID
        assert code(ask(group_instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(classic.sync(protocol_name="range")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(classic.join(protocols=protocols("mine"))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commit = classic.client.ask(classic.commit("t", 1), 8).topics[0].partitions[0]
    stale = classic.client.ask(classic.commit("t", 1, generation_id_or_member_epoch=77), 8).topics[0].partitions[0]
    assert (commit.error_code, stale.error_code) == (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION)


def test_G39_a_classic_member_may_commit_what_it_has_had_since_an_older_epoch(bench: Bench) -> None:
    """KIP-1251."""
    classic, consumer = stable_classic(bench), Consumer(bench, "new")
    since = classic.generation
    consumer.joins()
    settle(classic, consumer)
    assert classic.generation > since

    def commit(partition: int) -> ErrorCode:
        request = classic.commit("t", 1, partition=partition, generation_id_or_member_epoch=since)
        return ErrorCode(classic.client.ask(request, 8).topics[0].partitions[0].error_code)

    assert commit(classic.has[0]) is ErrorCode.NONE
    assert commit(consumer.numbers[0]) is ErrorCode.ILLEGAL_GENERATION


def test_static_members_of_the_classic_protocol_take_their_place_again(bench: Bench) -> None:
    classic, consumer = stable_classic(bench, instance="i"), Consumer(bench, "new")
    consumer.joins()
    settle(classic, consumer)
    again = Classic(bench, instance="i")
    again.has = classic.has
    again.joins()
    again.syncs()
    assert (again.has, again.alive(), again.id != classic.id) == (classic.has, ErrorCode.NONE, True)
    assert classic.alive() is ErrorCode.FENCED_INSTANCE_ID
    gone = [MemberIdentity(member_id="", group_instance_id="i")]
    assert again.client.ask(again.leave(5, members=gone)).members[0].error_code == ErrorCode.NONE
    consumer.beats()
    assert consumer.numbers == [0, 1, 2, 3]


def test_members_that_leave_together_are_all_removed_when_the_first_one_makes_it_a_classic_group(bench: Bench) -> None:
    classic, consumer = stable_classic(bench, instance="i"), Consumer(bench, "new")
    consumer.joins()
    settle(classic, consumer)
    gone = [MemberIdentity(member_id=consumer.id), MemberIdentity(member_id="", group_instance_id="i")]
    answer = classic.client.ask(classic.leave(5, members=gone))
    assert [one.error_code for one in answer.members] == [ErrorCode.NONE, ErrorCode.NONE]
    assert kind(bench) == ("classic", "Empty")


def test_a_static_member_comes_back_with_the_other_protocol_and_keeps_its_partitions(bench: Bench) -> None:
    classic = stable_classic(bench, instance="i")
    consumer = Consumer(bench, "new", instance="i")
    consumer.joins()
    assert (consumer.numbers, kind(bench)) == ([0, 1, 2, 3], ("consumer", "Stable"))
    assert classic.alive() is ErrorCode.FENCED_INSTANCE_ID
    again = Classic(bench, instance="i")
    again.has = consumer.numbers
    again.joins()
    again.syncs()
    assert again.has == [0, 1, 2, 3]
    assert consumer.beats().error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("stops", ["at all", "joining", "syncing"])
def test_members_of_the_classic_protocol_that_do_not_follow_are_removed(bench: Bench, stops: str) -> None:
    classic, consumer = stable_classic(bench), Consumer(bench, "new")
    consumer.joins()
    if stops == "syncing":
        classic.joins()
    step_ms = SESSION_MS // 2
    for _ in range(REBALANCE_MS // step_ms if stops != "at all" else 2):
        assert len(consumer.numbers) < 4
        if stops != "at all":
            classic.alive()
        bench.advance(step_ms)
        consumer.beats()
    assert (classic.alive(), len(consumer.numbers)) == (ErrorCode.UNKNOWN_MEMBER_ID, 4)
